//! Names of cases: a name means every case in whose path its words stand in a row.

/// Whether a case is meant by one of the names; all are when there are none.
pub(crate) fn is_wanted(names: &[String], path: &str) -> bool {
    let path: Vec<&str> = path.split('/').collect();
    let means = |name: &String| {
        let name: Vec<&str> = name.trim_end_matches('/').split('/').collect();
        path.windows(name.len()).any(|words| words == name)
    };
    names.is_empty() || names.iter().any(means)
}

#[cfg(test)]
mod tests {
    use super::is_wanted;

    #[test]
    fn a_name_means_the_cases_in_whose_path_it_stands() {
        let wanted = |name: &str| is_wanted(&[name.to_owned()], "tonic/unix/null/sleeping");
        assert!(wanted("tonic") && wanted("tonic/unix") && wanted("null/sleeping/"));
        assert!(wanted("tonic/unix/null/sleeping") && wanted("unix"));
        assert!(!wanted("ton") && !wanted("tonic/null") && !wanted("tcp") && !wanted(""));
        assert!(!wanted("tonic/unix/null/sleeping/more"));
        assert!(is_wanted(&[], "anything"));
    }
}
