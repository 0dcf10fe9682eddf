//! Where figures come from: the machine, the date and the commit.

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine, the date and the commit of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The name of the processor.
    pub processor: String,
    /// The number of CPUs that the run could use.
    pub cpus: usize,
    /// The day, as in `2026-11-26`.
    pub date: String,
    /// The commit; `+` stands behind it if files were changed since.
    pub commit: String,
    /// Whether the run was a quick one.
    pub quick: bool,
}

impl Origin {
    /// Returns the origin of a run that begins now, of the repository in this directory.
    pub fn here(root: &Path, quick: bool) -> Origin {
        Origin {
            processor: processor(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            date: today(),
            commit: commit(root),
            quick,
        }
    }
}

/// Returns the name of this machine's processor.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "an unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

/// Returns the day.
pub fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [year, month, day] = civil(now.as_secs() / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns year, month and day of a number of days since 1970.
fn civil(days: u64) -> [u64; 3] {
    // Years begin in March here, so that the leap day is the last of a year, and 400 years are an era.
    let from_era = days + 719_468;
    let (era, of_era) = (from_era / 146_097, from_era % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    [era * 400 + year + u64::from(month <= 2), month, day]
}

/// Returns the commit of the repository in this directory.
pub fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    match git(&["rev-parse", "--short=9", "HEAD"]) {
        None => "an unknown commit".to_owned(),
        Some(commit) => {
            // The documents that a run writes do not make it a run of another source.
            let changed =
                git(&["status", "--porcelain", "--untracked-files=no", "--", "*.rs", "*.toml"]);
            let is_changed = changed.is_none_or(|files| !files.is_empty());
            if is_changed { commit + "+" } else { commit }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_have_dates() {
        assert_eq!(civil(0), [1970, 1, 1]);
        assert_eq!(civil(11_016), [2000, 2, 29]);
        assert_eq!(civil(11_017), [2000, 3, 1]);
        assert_eq!(civil(20_783), [2026, 11, 26]);
        assert_eq!(civil(20_819), [2027, 1, 1]);
    }
}
