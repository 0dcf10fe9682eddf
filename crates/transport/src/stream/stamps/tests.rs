use super::*;

#[test]
fn a_message_is_written_when_its_last_byte_was_sent() {
    let mut writings = Writings::default();
    assert!(writings.begin().is_none(), "no message is watched");
    writings.watch(10);
    writings.watch(12);
    let mut first = writings.begin().unwrap();
    first.encrypting = 5;
    writings.end(&first, |_| false);
    assert_eq!(writings.0[0].ended, None);
    let mut second = writings.begin().unwrap();
    second.encrypting = 7;
    writings.end(&second, |until| until <= 11);
    let Written::All(Writing { began, encrypting, ended }) = writings.take(10) else {
        panic!("all of it was written")
    };
    assert_eq!((began, encrypting), (first.began, 12));
    assert!(ended >= second.began);
    assert_eq!(writings.take(10), Written::Unknown, "the time is returned once");
    assert_eq!(writings.take(12), Written::NotYet);
    let third = writings.begin().expect("the other one waits");
    writings.end(&third, |_| true);
    assert!(writings.begin().is_none());
    let Written::All(Writing { began, encrypting, .. }) = writings.take(12) else {
        panic!("all of it was written")
    };
    assert_eq!((began, encrypting), (first.began, 12));
}

#[test]
fn the_oldest_watched_message_is_dropped() {
    let mut writings = Writings::default();
    (1..=WRITINGS_MAX as u64 + 1).for_each(|slot| writings.watch(slot));
    let write = writings.begin().unwrap();
    writings.end(&write, |_| true);
    assert_eq!(writings.take(1), Written::Unknown);
    let is_known = |slot| matches!(writings.take(slot), Written::All(_));
    assert!((2..=WRITINGS_MAX as u64 + 1).all(is_known));
    assert_eq!(writings.0.capacity(), WRITINGS_MAX);
}

#[test]
fn reads_are_kept_for_sampled_messages_only() {
    let mut readings = Readings::default();
    readings.end(1, 0..3, false);
    assert_eq!((readings.of(1), readings.last.capacity()), (None, 0), "no message is sampled");
    // A sampled message has come in part, behind a whole message; then the rest of it comes.
    readings.sample_came();
    readings.end(2, 3..5, true);
    readings.end(3, 5..5, true);
    readings.end(4, 5..9, false);
    let began = |readings: &Readings, slot| readings.of(slot).map(|reading| reading.began);
    assert_eq!([4, 5, 8, 9].map(|slot| began(&readings, slot)), [Some(2), Some(4), Some(4), None]);
    assert!(readings.of(5).is_some_and(|reading| reading.ended >= reading.began));
    readings.end(5, 9..12, false);
    assert_eq!(readings.of(9), None, "the next message is not sampled");
    // Only the head of the sampled message has come.
    readings.sample_came();
    readings.end(6, 12..12, false);
    readings.end(7, 12..14, false);
    assert_eq!(began(&readings, 12), Some(7));
}

#[test]
fn the_oldest_read_is_dropped() {
    let mut readings = Readings::default();
    for read in 0..=READINGS as u64 {
        readings.sample_came();
        readings.end(1, read..read + 1, false);
    }
    assert_eq!((readings.of(0), readings.of(1).is_some()), (None, true));
    assert_eq!(readings.last.capacity(), READINGS);
}
