use super::*;
use std::os::unix::fs::PermissionsExt;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("upbeat-place-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn ours() -> String {
    format!("upbeat-{}", rustix::process::geteuid().as_raw())
}

#[test]
fn the_runtime_directory_is_used_only_if_it_is_private() {
    let directory = Directory::new("runtime");
    let (runtime, fallback) = (directory.0.join("run"), directory.0.join("tmp"));
    std::fs::create_dir(&runtime).unwrap();
    std::fs::create_dir(&fallback).unwrap();
    let choose = |path: Option<&Path>| {
        let chosen =
            SocketDirectory::choose(path.map(|path| path.as_os_str().to_owned()), &fallback);
        chosen.unwrap().directory().to_owned()
    };
    set_mode(&runtime, 0o700);
    assert_eq!(choose(Some(&runtime)), runtime.join("upbeat"));
    set_mode(&runtime, 0o750);
    assert_eq!(choose(Some(&runtime)), fallback.join(ours()));
    assert_eq!(choose(Some(Path::new("relative"))), fallback.join(ours()));
    assert_eq!(choose(Some(&runtime.join("absent"))), fallback.join(ours()));
    assert_eq!(choose(None), fallback.join(ours()));
    let mode = std::fs::metadata(fallback.join(ours())).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn a_directory_prepared_by_another_user_is_refused() {
    let directory = Directory::new("prepared");
    let place = directory.0.join(ours());
    let choose = || SocketDirectory::choose(None, &directory.0).unwrap_err();

    std::fs::write(&place, "").unwrap();
    assert!(matches!(choose(), PlaceError::NoDirectory { .. }), "{}", choose());
    std::fs::remove_file(&place).unwrap();

    std::os::unix::fs::symlink("/", &place).unwrap();
    assert!(matches!(choose(), PlaceError::NoDirectory { .. }), "{}", choose());
    std::fs::remove_file(&place).unwrap();

    std::fs::create_dir(&place).unwrap();
    set_mode(&place, 0o777);
    assert!(matches!(choose(), PlaceError::Mode { .. }));
    assert!(choose().to_string().contains("chmod 700"), "{}", choose());

    // Only root can create a directory that belongs to another user.
    if rustix::process::geteuid().is_root() {
        set_mode(&place, 0o700);
        std::os::unix::fs::chown(&place, Some(12345), None).unwrap();
        assert!(matches!(choose(), PlaceError::Owner { uid: 12345, .. }));
    }
}

#[test]
fn no_two_names_share_a_file() {
    let names = ["a", "a/b", "a.b", "a.lock", "a.sock", "a.new", "b/a", "a-b"];
    let mut files = Vec::new();
    for name in names {
        let FileNames { socket, staged, lock } = FileNames::of(&name.parse().unwrap());
        files.extend([socket, staged, lock]);
    }
    assert!(files.iter().all(|file| !file.contains('/')));
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 3 * names.len());
}

#[test]
fn a_long_path_is_reached_through_the_descriptor() {
    let directory = Directory::new("long");
    let path = directory.0.join("d".repeat(100));
    let place = SocketDirectory::at(&path).unwrap();
    let dir = place.open(&"program".parse().unwrap(), true).unwrap();
    let name = "n".repeat(NAME_BYTES_MAX).parse().unwrap();
    let address = dir.address(&FileNames::of(&name).socket).unwrap();
    let text = address.path().unwrap().to_string_lossy().into_owned();
    assert!(text.starts_with("/proc/self/fd/"), "{text}");
}
