//! Clipping by global norm against an independent implementation, and clipping by value.

use resilin_core::vote::clip_scale;
use resilin_learn::optimizer::Preparation;
use serde_json::Value;

fn tensors(list: &Value) -> Vec<Vec<f64>> {
    let floats = |t: &Value| {
        t.as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap())
            .collect()
    };
    list.as_array().unwrap().iter().map(floats).collect()
}

#[test]
fn global_norm_follows_the_golden_case() {
    let golden: Value = serde_json::from_str(include_str!("data/clip_global_norm.json")).unwrap();
    let (gradients, expected) = (tensors(&golden["gradients"]), tensors(&golden["clipped"]));
    let squares: f64 = gradients
        .iter()
        .map(|t| t.iter().map(|v| v * v).sum::<f64>())
        .sum();
    let norm = squares.sqrt();
    assert!(
        (norm - golden["norm_before"].as_f64().unwrap()).abs() <= 1e-12,
        "norm {norm}"
    );
    let scale = clip_scale(norm, golden["max_norm"].as_f64().unwrap());
    let mut values = 0;
    for (gradient, expected) in gradients.iter().flatten().zip(expected.iter().flatten()) {
        assert!(
            (gradient * scale - expected).abs() <= 1e-12,
            "{gradient} x {scale} is not {expected}"
        );
        values += 1;
    }
    assert_eq!(values, 23);
}

#[test]
fn a_short_gradient_keeps_its_bits() {
    assert_eq!(clip_scale(0.5, 1.0), 1.0);
    assert_eq!(clip_scale(0.0, 1.0), 1.0);
}

#[test]
fn clipping_by_value_follows_l2_and_hides_nothing() {
    let preparation = Preparation {
        l2: 0.5,
        clip_value: Some(1.0),
    };
    let mut values = [4.0f32, -8.0, 1.0, f32::INFINITY, f32::NAN];
    preparation.apply(2.0, &[-4.0, 1.0, 0.0, 0.0, 0.0], &mut values, 0..5);
    assert_eq!(values[..4], [0.0, -1.0, 0.5, f32::INFINITY]);
    assert!(values[4].is_nan());
}
