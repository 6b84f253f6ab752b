//! The event file: torn tails, damaged lines, a full file, a full disk.

use std::fs;
use std::path::Path;

use resilin_checkpoint::testing::Disk;
use resilin_checkpoint::{
    EVENTS, EVENTS_LIMIT, EventReader, Events, Line, OLDER_EVENTS, Patience, RealFiles, Start,
    StateDir,
};
use resilin_core::fact::{Dated, Fact};
use resilin_core::{Generation, Step, Timeline};

use crate::fixture::{NOW, disk, identity, open_disk, open_run};

fn event(step: u64) -> Dated {
    Dated {
        at_ms: NOW * 1000 + step,
        timeline: Timeline::first(NOW),
        generation: Generation::first(NOW),
        step: Step(step),
        fact: Fact::Committed {
            version: Step(step),
            loss: Some(0.5),
        },
    }
}

fn whole(events: impl IntoIterator<Item = u64>) -> Vec<Line> {
    let line = |step| Line::Event(Box::new(event(step)));
    events.into_iter().map(line).collect()
}

/// The event file of a run on a real disk, as the next life of a process opens it.
fn open(root: &Path) -> Events {
    let state = StateDir::open(root, Patience::default()).unwrap();
    state.next_reign(NOW).unwrap();
    let run = state.open_run(identity(), Start::Resume, NOW).unwrap().run;
    run.events()
}

fn read(dir: &Path) -> Vec<Line> {
    EventReader::new(dir).read(&RealFiles).unwrap()
}

#[test]
fn a_torn_tail_is_cut_and_nothing_else_is_lost() {
    let root = tempfile::tempdir().unwrap();
    open(root.path()).append([event(1), event(2)]).unwrap();
    let dir = root.path().join(crate::fixture::RUN);
    let path = dir.join(EVENTS);
    let bytes = fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in second..bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let mut reader = EventReader::new(&dir);
        assert_eq!(reader.read(&RealFiles).unwrap(), whole([1]), "cut at {cut}");
        assert_eq!(reader.is_torn(&RealFiles).unwrap(), cut > second);
    }
    open(root.path()).append([event(3)]).unwrap();
    assert_eq!(read(&dir), whole([1, 3]));
}

#[test]
fn damaged_lines_are_named_and_the_rest_is_read() {
    let root = tempfile::tempdir().unwrap();
    open(root.path()).append((1..=3).map(event)).unwrap();
    let dir = root.path().join(crate::fixture::RUN);
    let path = dir.join(EVENTS);
    let bytes = fs::read(&path).unwrap();
    let line = bytes.len() / 3;
    for (at, number) in [(line / 2, 1), (line + 20, 2), (2 * line + 60, 3)] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let mut expected = whole(1..=3);
        let file = path.clone();
        expected[number as usize - 1] = Line::Damaged { file, number };
        assert_eq!(read(&dir), expected);
        assert_eq!(fs::read(&path).unwrap(), damaged, "reading changes nothing");
    }
}

#[test]
fn a_full_file_takes_the_place_of_the_one_before_and_a_reader_follows() {
    let root = tempfile::tempdir().unwrap();
    let mut events = open(root.path());
    let dir = root.path().join(crate::fixture::RUN);
    let mut reader = EventReader::new(&dir);
    let (mut written, mut followed) = (0, Vec::new());
    let length = |name| fs::metadata(dir.join(name)).map_or(0, |file| file.len());
    for _ in 0..2 {
        let before = length(OLDER_EVENTS);
        while length(OLDER_EVENTS) == before || length(EVENTS) < EVENTS_LIMIT / 4 {
            events.append((written..written + 1000).map(event)).unwrap();
            written += 1000;
            followed.extend(reader.read(&RealFiles).unwrap());
        }
    }
    assert_eq!(followed, whole(0..written), "a follower misses nothing");
    assert!(length(OLDER_EVENTS) <= EVENTS_LIMIT && length(EVENTS) <= EVENTS_LIMIT);
    let kept = read(&dir);
    assert!(kept.len() < followed.len());
    assert_eq!(kept[..], followed[followed.len() - kept.len()..]);
}

#[test]
fn what_a_full_disk_refuses_waits_and_what_is_dropped_is_counted() {
    let disk: Disk = disk(3);
    let state = open_disk(&disk).unwrap();
    let run = open_run(&state).unwrap();
    let mut events = run.events();
    events.append([event(1)]).unwrap();
    disk.set_capacity(disk.used() + 10);
    events.append([event(2)]).unwrap_err();
    events.append((3..5000).map(event)).unwrap_err();
    disk.set_capacity(64 << 20);
    events.append([event(5000)]).unwrap();
    let lines = EventReader::new(run.path())
        .read(disk.files().as_ref())
        .unwrap();
    let mut expected = whole([1]);
    let fact = Fact::Unwritten { facts: 903 };
    let lost = Dated {
        fact,
        ..event(5000)
    };
    expected.push(Line::Event(Box::new(lost)));
    expected.extend(whole(905..=5000));
    assert_eq!(lines, expected);
}
