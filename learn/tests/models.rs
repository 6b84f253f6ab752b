//! The built-in models through `Model`: names, starts, independence of neighbours, refusals.

mod common;

use common::{batch, bits, evaluate, microbatch, parameters};
use resilin_learn::dataset::TargetKind;
use resilin_learn::math::Activation;
use resilin_learn::model::{Model, Outcome};
use resilin_learn::models::{Linear, LinearConfig, Mlp, MlpConfig, Rows, Softmax, SoftmaxConfig};

fn mlp(activation: Activation, dropout: f32, targets: TargetKind) -> Mlp {
    let rows = Rows { width: 7, targets };
    let hidden = vec![9, 5];
    Mlp::new(MlpConfig {
        rows,
        hidden,
        activation,
        dropout,
    })
    .expect("a legal model")
}

fn initial(model: &dyn Model, seed: u64) -> Vec<f32> {
    let mut weights = vec![f32::NAN; parameters(model)];
    model.initialise(seed, &mut weights);
    weights
}

#[test]
fn tensors_are_named_by_layer() {
    let names = |model: &dyn Model| -> Vec<(String, Vec<usize>)> {
        model
            .entries()
            .into_iter()
            .map(|e| (e.name, e.shape))
            .collect()
    };
    let named = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_owned());
    assert_eq!(
        names(&mlp(Activation::Relu, 0.0, TargetKind::Classes(3))),
        vec![
            named("layer0.weight", &[7, 9]),
            named("layer0.bias", &[9]),
            named("layer1.weight", &[9, 5]),
            named("layer1.bias", &[5]),
            named("layer2.weight", &[5, 3]),
            named("layer2.bias", &[3]),
        ]
    );
    let softmax = Softmax::new(SoftmaxConfig {
        inputs: 4,
        classes: 2,
        bias: false,
    });
    assert_eq!(
        names(&softmax.expect("legal")),
        vec![named("layer0.weight", &[4, 2])]
    );
}

#[test]
fn a_tensor_starts_the_same_whatever_layers_follow() {
    let short = initial(&mlp(Activation::Tanh, 0.0, TargetKind::Classes(3)), 5);
    let other = initial(&mlp(Activation::Tanh, 0.0, TargetKind::Classes(8)), 5);
    let kept = 7 * 9 + 9 + 9 * 5 + 5;
    assert_eq!(bits(&short[..kept]), bits(&other[..kept]));
    assert_ne!(
        short,
        initial(&mlp(Activation::Tanh, 0.0, TargetKind::Classes(3)), 6)
    );
    let bound = (6.0f32 / 16.0).sqrt();
    assert!(short[..63].iter().all(|w| w.abs() <= bound && *w != 0.0));
    assert_eq!(short[63..72], [0.0; 9]);
    let linear = Linear::new(LinearConfig {
        inputs: 3,
        outputs: 2,
        bias: true,
    })
    .expect("legal");
    assert_eq!(initial(&linear, 5), vec![0.0; 8]);
}

#[test]
fn gradients_do_not_depend_on_the_microbatches_beside() {
    for activation in [Activation::Tanh, Activation::Relu, Activation::Sigmoid] {
        for targets in [TargetKind::Classes(3), TargetKind::Values(2)] {
            let model = mlp(activation, 0.3, targets);
            let weights = initial(&model, 1);
            // More rows than run as one product, and an uneven last one.
            let batches: Vec<_> = [700, 300, 90, 5, 1]
                .iter()
                .zip(0..)
                .map(|(rows, seed)| batch(*rows, 7, targets, seed))
                .collect();
            let all: Vec<_> = batches
                .iter()
                .zip(0..)
                .map(|(b, p)| microbatch(b, 3, p))
                .collect();
            let together = evaluate(&model, &weights, &all);
            for (k, one) in all.into_iter().enumerate() {
                let alone = evaluate(&model, &weights, &[one]);
                assert_eq!(
                    bits(&together.gradients[k]),
                    bits(&alone.gradients[0]),
                    "{activation:?} {k}"
                );
                assert_eq!(together.outcomes[k], alone.outcomes[0]);
                assert!(alone.gradients[0].iter().all(|g| g.is_finite()));
            }
        }
    }
}

#[test]
fn dropout_follows_step_and_partition_and_is_absent_from_scores() {
    let targets = TargetKind::Classes(3);
    let model = mlp(Activation::Relu, 0.5, targets);
    let weights = initial(&model, 1);
    let rows = batch(8, 7, targets, 2);
    let gradient = |step, partition| {
        evaluate(&model, &weights, &[microbatch(&rows, step, partition)])
            .gradients
            .remove(0)
    };
    assert_eq!(bits(&gradient(4, 1)), bits(&gradient(4, 1)));
    assert_ne!(gradient(4, 1), gradient(5, 1));
    assert_ne!(gradient(4, 1), gradient(4, 2));

    let without = mlp(Activation::Relu, 0.0, targets);
    let mut used = model.workspace();
    let mut kept = common::Kept::new(weights.len());
    model
        .evaluate(&weights, &[microbatch(&rows, 4, 1)], &mut used, &mut kept)
        .expect("fits");
    let score = model.score(&weights, &rows, &mut used).expect("fits");
    assert_eq!(
        score,
        without
            .score(&weights, &rows, &mut without.workspace())
            .expect("fits")
    );
    let plain = evaluate(&without, &weights, &[microbatch(&rows, 4, 1)]);
    let Outcome {
        samples,
        weight,
        loss_sum,
    } = plain.outcomes[0];
    assert_eq!(
        (samples, weight, loss_sum.to_bits()),
        (8, 8.0, score.loss_sum.to_bits())
    );
}

#[test]
fn a_softmax_of_zeros_knows_nothing() {
    let model = Softmax::new(SoftmaxConfig {
        inputs: 7,
        classes: 4,
        bias: true,
    })
    .expect("legal");
    let rows = batch(10, 7, TargetKind::Classes(4), 3);
    let score = model
        .score(&[0.0; 32], &rows, &mut model.workspace())
        .expect("fits");
    let first = match &rows.targets {
        resilin_learn::dataset::Targets::Classes(classes) => {
            classes.iter().filter(|class| **class == 0).count() as u64
        }
        resilin_learn::dataset::Targets::Values { .. } => 0,
    };
    assert_eq!((score.rows, score.correct), (10, Some(first)));
    assert!((score.loss_sum - 10.0 * 4f64.ln()).abs() < 1e-5);
}

#[test]
fn rows_that_do_not_fit_are_refused_by_name() {
    let model = mlp(Activation::Relu, 0.0, TargetKind::Classes(3));
    let weights = initial(&model, 1);
    let refusal = |rows| {
        let error = model.score(&weights, &rows, &mut model.workspace());
        error.expect_err("must be refused").to_string()
    };
    let classes = TargetKind::Classes(3);
    assert!(refusal(batch(0, 7, classes, 1)).contains("without rows"));
    assert!(refusal(batch(2, 8, classes, 1)).contains("2 rows of 8 values"));
    assert!(refusal(batch(50, 7, TargetKind::Classes(9), 1)).contains("for a model of 3 classes"));
    assert!(
        refusal(batch(2, 7, TargetKind::Values(3), 1)).contains("values for a model of classes")
    );
    let rows = Rows {
        width: 7,
        targets: classes,
    };
    let config = MlpConfig {
        rows,
        hidden: vec![0],
        activation: Activation::Relu,
        dropout: 1.0,
    };
    let error = |config| Mlp::new(config).err().expect("must be refused").to_string();
    assert!(error(config.clone()).contains("layer widths [7, 0, 3]"));
    assert!(
        error(MlpConfig {
            hidden: vec![],
            ..config
        })
        .contains("dropout 1")
    );
}
