//! ONNX's own node cases for the operations and update rules that are here (`tests/data/onnx.json`,
//! made by `onnx_cases.py`): every case of the file, in f32 and in f64.

mod case;
mod operations;
mod rules;
mod shapes;

use std::collections::BTreeMap;

use case::{Case, Goldens};
use resilin_learn::math::Float;
use resilin_learn::optimizer::Real;

/// Their values are f32.
const TOLERANCE: f64 = 1e-5;

fn run<F: Float + Real>(case: &Case) {
    let found: Vec<Vec<F>> = match case.operation.as_str() {
        "Momentum" | "Adagrad" => rules::updated(case),
        _ => operations::outputs(case),
    };
    assert!(!found.is_empty(), "{}: nothing compared", case.name);
    for (number, (found, expected)) in found.iter().zip(&case.outputs).enumerate() {
        let what = format!("{} ({}), output {number}", case.name, case.operation);
        assert_eq!(found.len(), expected.values.len(), "{what}: length");
        for (i, (found, expected)) in found.iter().zip(&expected.values).enumerate() {
            let error = (Float::to_f64(*found) - expected).abs();
            let allowed = TOLERANCE * expected.abs().max(1.0);
            assert!(
                error <= allowed,
                "{what}[{i}] is {found:?}, ONNX has {expected}"
            );
        }
    }
}

#[test]
fn every_case_of_the_file_agrees() {
    let goldens = Goldens::read();
    assert_eq!(goldens.cases.len(), 252);
    for case in &goldens.cases {
        run::<f64>(case);
        run::<f32>(case);
    }
}

/// The list of what is left out is whole: prints it by reason.
#[test]
fn every_other_case_has_a_reason() {
    let goldens = Goldens::read();
    assert_eq!(goldens.cases.len() + goldens.skipped.len(), 932);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, reason) in &goldens.skipped {
        assert!(
            goldens.cases.iter().all(|case| case.name != *name),
            "{name}"
        );
        *reasons.entry(reason).or_default() += 1;
    }
    for (reason, count) in reasons {
        println!("{count:4} left out: {reason}");
    }
}
