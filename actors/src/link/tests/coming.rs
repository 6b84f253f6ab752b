//! Tensors that are sent while their values still come.

use super::*;

fn portion(values: &[f32]) -> SharedValues {
    SharedValues::new(Arc::new(values.to_vec()))
}

fn coming(step: u64, values: &Coming) -> OutTensor {
    OutTensor {
        header: header(step, 0),
        values: OutValues::Coming(values.clone()),
        before: None,
    }
}

#[tokio::test]
async fn values_that_come_arrive_as_one_tensor_and_control_passes_them() {
    let (there, mut here) = pair(options(), options()).await;
    // Portions that end within pieces, rows of zeros among them, and more than a piece in one.
    let values: Vec<f32> = (0..MIB)
        .map(|n| if n < MIB / 2 { 0.0 } else { n as f32 })
        .collect();
    let borders = [0, 3, MIB / 8, MIB / 3, MIB];
    let sum = Coming::new(MIB);
    there.sender().try_send(&coming(1, &sum)).unwrap();
    for range in borders.windows(2) {
        there.sender().send_control(&"meanwhile").unwrap();
        next_control(&mut here).await;
        sum.give(portion(&values[range[0]..range[1]]));
    }
    let (header, arrived) = next_tensor(&mut here).await;
    assert_eq!((header.step, header.total), (Step(1), MIB as u64));
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert!(bits(&arrived) == bits(&values), "other bits");
    soon(there.sender().flush()).await.unwrap();
    let out = there.sender().counters();
    assert_eq!(out.queued_bytes, 0);
    assert!(out.bytes_saved > MIB as u64, "zeros were not sent: {out:?}");
}

#[tokio::test]
async fn a_sum_that_is_given_up_is_never_delivered_and_the_next_one_is() {
    let (there, mut here) = pair(options(), options()).await;
    let (begun, late) = (Coming::new(MIB), Coming::new(MIB));
    for sum in [&begun, &late] {
        there.sender().try_send(&coming(1, sum)).unwrap();
    }
    there.sender().try_send(&tensor(2, vec![5.0; 7])).unwrap();
    begun.give(portion(&vec![1.0; MIB / 2]));
    late.give_up();
    begun.give_up();
    let (header, arrived) = next_tensor(&mut here).await;
    assert_eq!((header.step, arrived.len()), (Step(2), 7));
    soon(there.sender().flush()).await.unwrap();
    assert_eq!(there.sender().counters().queued_bytes, 0);
}

#[tokio::test]
async fn a_link_that_ends_lets_go_of_what_still_comes() {
    let (there, mut here) = pair(options(), options()).await;
    let sum = Coming::new(MIB);
    there.sender().try_send(&coming(1, &sum)).unwrap();
    sum.give(portion(&[1.0; 100]));
    there.sender().close("no more");
    next_end(&mut here).await;
    // Nobody takes it, and nobody minds.
    sum.give(portion(&vec![1.0; MIB - 100]));
}
