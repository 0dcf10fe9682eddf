use super::*;

#[test]
fn a_message_is_written_when_the_last_of_it_has_gone() {
    let mut writings = Writings::default();
    assert!(writings.begin().is_none(), "nobody watches");
    writings.watch(10);
    writings.watch(12);
    let mut first = writings.begin().unwrap();
    first.encrypting = 5;
    writings.end(&first, None);
    assert_eq!(writings.0[0].ended, None);
    let mut second = writings.begin().unwrap();
    second.encrypting = 7;
    writings.end(&second, Some(11));
    let Writing { began, encrypting, ended } = writings.take(10).unwrap();
    assert_eq!((began, encrypting), (first.began, 12));
    assert!(ended >= second.began);
    assert_eq!(writings.take(10), None, "it is told once");
    assert!(writings.begin().is_some(), "the other one waits");
    assert_eq!(writings.take(12), None, "a part of it has not gone");
    assert!(writings.begin().is_none());
}

#[test]
fn the_oldest_watched_message_gives_way() {
    let mut writings = Writings::default();
    (1..=WRITINGS_MAX as u64 + 1).for_each(|slot| writings.watch(slot));
    let write = writings.begin().unwrap();
    writings.end(&write, Some(u64::MAX));
    assert_eq!(writings.take(1), None);
    assert!((2..=WRITINGS_MAX as u64 + 1).all(|slot| writings.take(slot).is_some()));
    assert_eq!(writings.0.capacity(), WRITINGS_MAX);
}

#[test]
fn reads_are_stamped_for_as_long_as_samples_may_come() {
    let mut readings = Readings::default();
    assert_eq!(readings.begin(), None, "nobody samples");
    readings.expect();
    for read in 0..READINGS as u64 {
        let began = readings.begin().unwrap();
        // Every other read brings no more than a part of a message.
        readings.end(began, 3 * read..3 * read + 3 * (read % 2));
        assert_eq!(readings.of(3 * read + 1).is_some(), read % 2 == 1, "{read}");
    }
    assert_eq!(readings.begin(), None);
    assert!(readings.of(5).is_some_and(|reading| reading.ended >= reading.began));
    assert!(readings.of(3 * READINGS as u64).is_none());
    readings.expect();
    for read in 1_000..1_000 + READINGS as u64 {
        readings.end(1, read..read + 1);
    }
    assert_eq!((readings.of(5), readings.of(1_000).is_some()), (None, true));
}
