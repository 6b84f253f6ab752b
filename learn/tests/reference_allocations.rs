//! After step 2 a step allocates nothing of 4 KiB or more: neither the evaluation of a node nor
//! combine and apply. A fresh parameter-sized vector costs more than an Adam step.
//!
//! Packing buffers of `matrixmultiply` are exempt; they are the only ones with a wide alignment.

#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use resilin_core::Step;
use resilin_core::job::Document;
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};
use resilin_learn::reference::Reference;
use resilin_learn::registry::Registry;

struct Counting;

static LARGE: AtomicUsize = AtomicUsize::new(0);
static PACKING: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(layout: Layout) {
    if layout.size() >= 4096 {
        let counter = if layout.align() > 16 {
            &PACKING
        } else {
            &LARGE
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rows made from their number.
struct Numbered(Manifest);

impl Dataset for Numbered {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        let width = self.0.width as usize;
        (batch.rows, batch.width) = (rows.len(), width);
        batch.features.clear();
        let Targets::Classes(classes) = &mut batch.targets else {
            unreachable!("a batch starts with classes");
        };
        classes.clear();
        for row in rows {
            classes.push(row % 10);
            batch
                .features
                .extend((0..width).map(|i| ((*row as usize * i) % 17) as f32 / 17.0));
        }
        Ok(())
    }
}

#[test]
fn a_step_allocates_nothing_large() {
    let text = "[run]\nbatch = 128\npartitions = 8\nsteps = 20\nclip_norm = 1.0\nblock = 4096\n\
        [data]\nname = \"numbered\"\n\
        [model]\nname = \"mlp\"\nhidden = [128, 64]\ndropout = 0.1\n[optimizer]\nname = \"adam\"\n";
    let registry = Registry::default().data("numbered", |_, _| {
        let manifest = Manifest {
            source: "numbered".into(),
            files: Vec::new(),
            rows: 10_000,
            width: 64,
            targets: TargetKind::Classes(10),
            missing: "refuse".into(),
            digest: String::new(),
        };
        Ok(Split {
            train: Arc::new(Numbered(manifest)),
            test: None,
        })
    });
    let task = Arc::new(registry.task(Document::parse(text).unwrap(), None).unwrap());
    let mut run = Reference::new(&task);
    let before = LARGE.load(Ordering::Relaxed);
    run.step(Step(0)).unwrap();
    assert!(LARGE.load(Ordering::Relaxed) > before, "the counter counts");
    run.step(Step(1)).unwrap();
    for step in 2..20 {
        let large = LARGE.load(Ordering::Relaxed);
        run.step(Step(step)).unwrap();
        assert_eq!(LARGE.load(Ordering::Relaxed), large, "step {step}");
    }
    println!(
        "{} packing buffers of matrixmultiply",
        PACKING.load(Ordering::Relaxed)
    );
}
