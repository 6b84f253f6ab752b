//! What many saves leave on the disk: bounded, whatever their number. `RESILIN_SAVES=2000` saves as
//! often, 1 MiB each time.

use std::fs;
use std::path::Path;

use resilin_checkpoint::{LEDGER, Patience, SliceImage, StateDir};
use resilin_core::Timeline;
use resilin_core::layout::{Entry, Layout, Role, SliceMap};

use crate::fixture::{NOW, facts, open_run, set, step_record};

const KEEP: usize = 3;

/// The bound: what the kept checkpoints, one more under way, the reserve and sled's log take.
fn bound(state: u64) -> u64 {
    (KEEP as u64 + 1) * state + (8 << 20)
}

/// Bytes of all files but the ledger, which grows by a line a step, and of the ledger.
fn used(dir: &Path) -> (u64, u64) {
    let mut bytes = (0, 0);
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            let (rest, ledger) = used(&entry.path());
            bytes = (bytes.0 + rest, bytes.1 + ledger);
        } else if entry.file_name() == LEDGER {
            bytes.1 += entry.metadata().unwrap().len();
        } else {
            bytes.0 += entry.metadata().unwrap().len();
        }
    }
    bytes
}

fn flat(values: usize) -> Layout {
    let entry = Entry {
        name: "w".into(),
        shape: vec![values],
        role: Role::Trained,
    };
    Layout::new(vec![entry], 4096)
}

fn save(run: &resilin_checkpoint::Run, timeline: Timeline, step: u64, values: &[f32]) {
    let layout = flat(values.len());
    let slices = SliceMap::new(layout.blocks(), 1);
    let mut save = run
        .begin(resilin_checkpoint::Set {
            slices,
            layout: layout.clone(),
            tensors: 1,
            ..set(step, timeline, 1)
        })
        .unwrap();
    save.write_slice(&SliceImage {
        slice: resilin_core::SliceId(0),
        blocks: 0..layout.blocks(),
        tensors: &[("weights", values)],
    })
    .unwrap();
    let sealed = save.seal(facts(step, false)).unwrap();
    sealed.commit().unwrap();
}

#[test]
fn many_saves_take_no_more_room_than_a_few() {
    let many = std::env::var("RESILIN_SAVES").map(|n| n.parse().expect("a number"));
    let (saves, values) = many.map_or((200, 16 << 10), |saves| (saves, 256 << 10));
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path(), Patience::default()).unwrap();
    state.next_reign(NOW).unwrap();
    let run = open_run(&state).unwrap();
    let timeline = run.next_timeline().unwrap();
    let values = vec![0.5; values];
    let mut most = [0, 0];
    for step in 1..=saves {
        run.append(&[step_record(timeline, step - 1)]).unwrap();
        save(&run, timeline, step, &values);
        assert_eq!(run.prune(KEEP).unwrap().warnings, Vec::<String>::new());
        let half = usize::from(step > saves / 2);
        most[half] = used(dir.path()).0.max(most[half]);
    }
    let bound = bound(4 * values.len() as u64);
    let (rest, ledger) = used(dir.path());
    println!("{saves} saves: at most {most:?} bytes by half, {rest} and a ledger of {ledger} now");
    assert!(most[1] <= bound, "{most:?} bytes, the bound is {bound}");
    assert!(ledger <= 512 * saves, "{ledger} bytes of ledger");
}
