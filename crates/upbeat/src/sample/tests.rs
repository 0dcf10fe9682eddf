use super::*;

#[test]
fn only_wanted_points_are_stamped() {
    let mut sample = Sample::new(StampMode::Pair(4));
    sample.begin();
    sample.at(Point::Claimed);
    sample.at(Point::Marshalled);
    assert!(sample.taken.at(Point::Begun).is_some());
    assert_eq!(sample.taken.at(Point::Claimed), None);
    assert!(sample.taken.at(Point::Marshalled).is_some());
    assert_eq!(sample.manner(), None, "its receiver takes no stamp");
    assert_eq!(Sample::new(StampMode::Pair(12)).manner(), Some(StampMode::Pair(12)));
    let mut stamp = sample.again(StampMode::Pair(0));
    assert_eq!(stamp.taken.at(Point::Begun), None, "the earlier stamps are gone");
    stamp.begin();
    assert!(stamp.taken.at(Point::Roomed).is_some());
}

#[test]
fn a_tasks_time_is_divided_by_activity() {
    let mut sample = Sample::new(StampMode::Whole);
    sample.at(Point::Ran);
    let mut timed = TaskTime::new(sample, (Reason::Lock, Some("accounts".into())), false);
    let promoted = timed.promoted;
    while ticks() < promoted + 10_000 {}
    timed.resumed(promoted + 4_000);
    timed.paused((Reason::Timer, None), false);
    let paused = timed.paused;
    while ticks() < paused + 2_000 {}
    timed.resumed(paused + 1_000);
    let sample = timed.finished();
    let at = |point| sample.taken.at(point).unwrap();
    assert_eq!(at(Point::Locked) - at(Point::Promoted), 4_000);
    assert_eq!(at(Point::Waited) - at(Point::Locked), 1_000);
    assert!(at(Point::Queued) - at(Point::Waited) >= 6_000);
    assert!(at(Point::Finished) >= at(Point::Queued));
    assert_eq!(sample.lock.as_deref(), Some("accounts"));
    assert!(sample.taken.happened.has(MessageEvents::PROMOTED));
}

#[test]
fn a_wake_before_the_wait_counts_as_no_wait() {
    let mut timed = TaskTime::new(Sample::new(StampMode::Whole), (Reason::Other, None), false);
    timed.resumed(1);
    assert_eq!((timed.wait, timed.lock), (0, 0));
    timed.paused((Reason::Call, None), false);
    timed.resumed(u64::MAX);
    assert_eq!(timed.lock, 0);
}

#[test]
fn a_longer_wait_without_a_name_takes_the_place_of_a_named_one() {
    let named = |kind| (kind, Some("gate".into()));
    let mut timed = TaskTime::new(Sample::new(StampMode::Whole), named(Reason::Condition), false);
    let mut waits = |time, next| {
        let paused = timed.paused;
        while ticks() < paused + 100_000 {}
        timed.resumed(paused + time);
        timed.paused(next, false);
        (timed.sample.lock.is_some(), timed.sample.taken.happened.has(MessageEvents::CONDITION))
    };
    assert_eq!(waits(1_000, (Reason::Timer, None)), (true, true));
    assert_eq!(waits(900, (Reason::Timer, None)), (true, true));
    assert_eq!(waits(2_000, named(Reason::Condition)), (false, false));
    assert_eq!(waits(2_000, (Reason::Other, None)), (true, true), "a name explains more");
}

#[test]
fn a_task_that_was_ready_at_once_has_waited_for_its_turn_alone() {
    let mut timed = TaskTime::new(Sample::new(StampMode::Whole), (Reason::Other, None), true);
    let mut passes = |ready| {
        let paused = timed.paused;
        while ticks() < paused + 10_000 {}
        timed.resumed(0);
        timed.paused((Reason::Call, None), ready);
        (timed.wait >= 10_000, timed.queue)
    };
    let (waited, started) = passes(true);
    assert!(!waited && started >= 10_000);
    let (waited, queued) = passes(false);
    assert!(!waited && queued >= started + 10_000);
    assert_eq!(passes(false), (true, queued), "polled where its reply lay");
}
