use super::*;
use upbeat::bill::way::CALL;

fn billed(items: &[(&'static str, &'static str, f64)]) -> Billed {
    let sum_ns: f64 = items.iter().map(|(_, _, ns)| ns).sum();
    let item = |(item, place, ns): &(&'static str, &'static str, f64)| BilledItem {
        item,
        place,
        ns: *ns,
        percent: 100.0 * ns / sum_ns,
    };
    Billed {
        items: items.iter().map(item).collect(),
        sum_ns,
        measured_ns: 98.0,
        ..Billed::default()
    }
}

fn row(case: &str, bill: Option<Billed>) -> Row {
    let row = Row::alike("papers", case, Placement::OneL3, 100.0);
    Row { bill, cpus: [0, 1], ..row }
}

const ITEMS: &[(&str, &str, f64)] = &[
    ("flow control", "here", 3.0),
    ("claim", "here", 2.0),
    ("marshal", "here", 5.0),
    ("publish", "here", 4.0),
    ("wire", "wire", 30.0),
    ("check", "there", 1.0),
    ("decode", "there", 2.0),
    ("execute", "there", 1.0),
    ("reply", "there", 6.0),
    ("wire", "wire", 40.0),
    ("deliver", "here", 4.0),
    ("decode", "here", 2.0),
];

#[test]
fn every_row_of_the_times_is_held_against_todays() {
    for (row, _) in lynx::TIMES.rows {
        assert!(TIMES.iter().any(|(name, _)| name == row), "{row}");
    }
    let rows = [row("nullop/shared/polling", None), row("bigop/shared/one-cpu", None)];
    let groups = Table::Times.groups(&rows.iter().collect::<Vec<_>>());
    let lines = &groups[0];
    assert_eq!((lines.len(), lines[0].ratio, lines[1].ratio), (2, Some(20_400.0), Some(44_200.0)));
    assert!(Table::Times.groups(&[]).is_empty() && Table::Timeline.groups(&[]).is_empty());
}

#[test]
fn a_timeline_goes_on_where_the_last_item_ended() {
    let row = row("null/shared/polling", Some(billed(ITEMS)));
    let groups = Table::Timeline.groups(&[&row]);
    let lines = &groups[0];
    assert_eq!(lines.len(), ITEMS.len() + 3);
    for pair in lines[..ITEMS.len()].windows(2) {
        assert_eq!(pair[0].begins.unwrap() + pair[0].today.unwrap(), pair[1].begins.unwrap());
    }
    assert_eq!((lines[12].row, lines[12].today), ("sum of the timeline", Some(100.0)));
    assert_eq!((lines[12].ratio, lines[13].today), (Some(20_000.0), Some(98.0)));
    assert_eq!((lines[14].then, lines[14].today), (Some(2.0), Some(2.041)));
}

#[test]
fn a_breakdown_has_all_of_the_bill_and_all_of_the_paper() {
    let row = row("null/local/sleeping", Some(billed(ITEMS)));
    let groups = Table::Breakdown.groups(&[&row]);
    let find = |name: &str| groups[0].iter().find(|line| line.row == name).unwrap();
    let told = |name| (find(name).request, find(name).answer);
    assert_eq!(told("send: datalink protocol"), (Some(6.0), None));
    assert_eq!(told("send, all of it"), (Some(14.0), Some(6.0)));
    assert_eq!(told("receive: datalink protocol"), (Some(30.0), Some(40.0)));
    assert_eq!(told("receive: context switching"), (Some(0.0), Some(4.0)));
    assert_eq!(find("receive: context switching").then, Some(41_000.0));
    assert_eq!(find("send: other").today, None);
    let whole = ["send, all of it", "receive: ", "handler"];
    let parts = groups[0].iter().filter(|line| whole.iter().any(|one| line.row.starts_with(one)));
    let (then, today) = parts.fold((0.0, 0.0), |(then, today), line| {
        (then + line.then.unwrap_or(0.0), today + line.today.unwrap())
    });
    assert_eq!((Some(then), Some(today)), (find("total").then, find("total").today));
    let percent: f64 = groups[1].iter().filter_map(|line| line.today).sum();
    assert!((percent - 100.0).abs() < 0.01);
}

#[test]
fn the_items_of_a_call_are_known() {
    let named = |item| part(item) != Part::Context;
    let all: Vec<&str> = CALL.phases.iter().map(|phase| phase.item.name()).collect();
    let contexts: Vec<&str> = all.iter().copied().filter(|item| !named(item)).collect();
    assert_eq!(contexts, ["wake", "promote", "lock", "wait", "queue", "wake", "deliver"]);
}
