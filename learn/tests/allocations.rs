//! From the third evaluation on no allocation of 4 KiB or more is ours. The matrix product's packing
//! buffers are exempt; they are told apart by their alignment, and printed.
#![allow(unsafe_code, reason = "a counting allocator is written with it")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{batch, microbatch, parameters};
use resilin_learn::autograd::{Parameters, ops};
use resilin_learn::dataset::{TargetKind, Targets};
use resilin_learn::math::{Activation, Write, multiply, view};
use resilin_learn::model::{Model, Outcome, Sink};
use resilin_learn::models::{ClosureModel, Mlp, MlpConfig, Rows};

const LARGE: usize = 4096;

static OURS: AtomicUsize = AtomicUsize::new(0);
static PACKING: AtomicUsize = AtomicUsize::new(0);

struct Counting;

impl Counting {
    fn count(layout: Layout, size: usize) {
        if size >= LARGE {
            // Vectors of numbers have the numbers' alignment; packing buffers the vector unit's.
            let counter = if layout.align() > 16 { &PACKING } else { &OURS };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout, layout.size());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(layout, size);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One buffer for all microbatches, as a worker that sums at once would have it.
struct Reused(Vec<f32>);

impl Sink for Reused {
    fn gradient(&mut self, _: usize) -> &mut [f32] {
        &mut self.0
    }

    fn done(&mut self, _: usize, _: Outcome) {}
}

fn on_tape(rows: Rows, model: &dyn Model) -> ClosureModel {
    let parameters = Parameters::new(model.entries()).expect("names differ");
    ClosureModel::new(parameters, rows, |tape, batch, draws| {
        let x = tape.rows(batch.rows, batch.width, &batch.features);
        let [w0, b0, w1, b1] = [
            "layer0.weight",
            "layer0.bias",
            "layer1.weight",
            "layer1.bias",
        ]
        .map(|name| tape.parameter(name));
        let hidden = ops::dense(tape, x, w0, Some(b0));
        let hidden = ops::tanh(tape, hidden);
        let hidden = draws.dropout(tape, hidden, 0.2, 0);
        let logits = ops::dense(tape, hidden, w1, Some(b1));
        let Targets::Classes(classes) = &batch.targets else {
            panic!("rows were checked")
        };
        ops::cross_entropy_sum(tape, logits, classes)
    })
}

#[test]
fn steps_allocate_nothing_large() {
    let targets = TargetKind::Classes(10);
    let rows = Rows {
        width: 128,
        targets,
    };
    let config = MlpConfig {
        rows,
        hidden: vec![96],
        activation: Activation::Tanh,
        dropout: 0.2,
    };
    let mlp = Mlp::new(config).expect("a legal model");
    let closure = on_tape(rows, &mlp);
    let batches: Vec<_> = [64, 64, 63, 17]
        .iter()
        .zip(0..)
        .map(|(n, s)| batch(*n, 128, targets, s))
        .collect();
    let counted = || PACKING.load(Ordering::Relaxed);
    let (before, values) = (counted(), vec![1.0; 128 * 128]);
    let square = view::<f64>(&values, 128, 128);
    multiply(square, square, &mut values.clone(), Write::Replace);
    assert!(counted() > before, "packing buffers are seen apart");
    for (name, model) in [("mlp", &mlp as &dyn Model), ("tape", &closure)] {
        let mut weights = vec![0.0; parameters(model)];
        model.initialise(1, &mut weights);
        let (mut workspace, mut sink) = (model.workspace(), Reused(weights.clone()));
        let mut seen = Vec::new();
        for step in 0..6 {
            // The last microbatch of an epoch is short; the one after it is not.
            let short = usize::from(step % 2 == 1);
            let all = [
                microbatch(&batches[0], step, 0),
                microbatch(&batches[1 + 2 * short], step, 1),
            ];
            let before = (
                OURS.load(Ordering::Relaxed),
                PACKING.load(Ordering::Relaxed),
            );
            model
                .evaluate(&weights, &all, &mut workspace, &mut sink)
                .expect("rows fit");
            let after = (
                OURS.load(Ordering::Relaxed),
                PACKING.load(Ordering::Relaxed),
            );
            seen.push((after.0 - before.0, after.1 - before.1));
        }
        println!("{name}: allocations of 4 KiB or more a step (ours, packing): {seen:?}");
        assert!(seen[0].0 > 0, "{name}: the counter counts");
        assert_eq!(
            seen[2..].iter().map(|s| s.0).collect::<Vec<_>>(),
            [0; 4],
            "{name}"
        );
    }
}
