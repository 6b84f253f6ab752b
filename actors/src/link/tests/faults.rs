//! What a dishonest or damaged peer can send, and what it costs.

use super::*;

#[tokio::test]
async fn an_aborted_tensor_is_forgotten_by_the_receiver() {
    let (mut raw, mut link) = Raw::admitted(options()).await;
    let first = DataHeader {
        sequence: 1,
        total: 4,
        ..header(1, 0)
    };
    let second = DataHeader {
        sequence: 2,
        total: 2,
        ..header(2, 0)
    };
    raw.write(&piece(&first, &[1.0, 1.0])).await;
    raw.write(&piece(&second, &[2.0, 2.0])).await;
    let (header, values) = next_tensor(&mut link).await;
    assert_eq!((header, &*values), (second, [2.0, 2.0].as_slice()));
}

#[tokio::test]
async fn a_peer_that_says_nothing_ends_a_wait_and_not_the_link() {
    let (mut raw, link) = Raw::admitted(options()).await;
    let (_sender, mut inbox) = link.split();
    let silent = soon(inbox.next_within(Duration::from_millis(20))).await;
    assert!(silent.is_none(), "{silent:?}");
    let head = DataHeader {
        total: 2,
        ..header(1, 0)
    };
    raw.write(&piece(&head, &[1.0, 2.0])).await;
    let Some(Received::Tensor { values, .. }) = soon(inbox.next_within(DEADLINE)).await else {
        panic!("the tensor comes");
    };
    assert_eq!(*values, [1.0, 2.0]);
}

#[tokio::test]
async fn a_changed_payload_drops_the_link() {
    let pool = BufferPool::new(MIB);
    let (mut raw, mut link) = Raw::admitted(LinkOptions::data(8, pool.clone())).await;
    let mut bytes = piece(
        &DataHeader {
            total: 2,
            ..header(1, 0)
        },
        &[1.0, 2.0],
    );
    *bytes.last_mut().unwrap() ^= 1;
    raw.write(&bytes).await;
    assert_eq!(
        next_end(&mut link).await,
        LinkError::Frame(FrameError::Corrupt("payload"))
    );
    assert!(raw.is_dropped().await);
}

#[tokio::test]
async fn limits_hold_before_anything_is_allocated() {
    let pool = BufferPool::new(MIB);
    let (mut raw, mut link) = Raw::admitted(LinkOptions::data(8, pool.clone())).await;
    raw.write(&piece(
        &DataHeader {
            total: 1 << 60,
            ..header(1, 0)
        },
        &[1.0],
    ))
    .await;
    let limit = FrameError::TooLong {
        part: "tensor",
        length: 1 << 62,
        limit: 32,
    };
    assert_eq!(next_end(&mut link).await, LinkError::Frame(limit));

    let (mut raw, mut link) = Raw::admitted(options()).await;
    let mut bytes = frame::control_frame(&"huge").unwrap();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    raw.write(&bytes).await;
    let limit = FrameError::TooLong {
        part: "payload",
        length: u32::MAX.into(),
        limit: MAX_CONTROL_BYTES.into(),
    };
    assert_eq!(next_end(&mut link).await, LinkError::Frame(limit));
}

#[tokio::test]
async fn a_sender_that_ignores_its_credit_is_dropped() {
    let receiver = LinkOptions {
        window: MIN_WINDOW,
        ..options()
    };
    let (mut raw, mut link) = Raw::admitted(receiver).await;
    let full = vec![0.0; MIB / 4];
    for sequence in 0..5 {
        let header = DataHeader {
            sequence,
            total: MIB as u64 / 4,
            ..header(1, 0)
        };
        raw.write(&piece(&header, &full)).await;
    }
    // Nothing was taken while the pieces came in.
    let overrun = LinkError::WindowOverrun {
        sent: 5 << 20,
        window: MIN_WINDOW,
    };
    assert_eq!(soon(link.sender().closed()).await, overrun);
    for _ in 0..4 {
        next_tensor(&mut link).await;
    }
    assert_eq!(next_end(&mut link).await, overrun);
}

#[tokio::test]
async fn pieces_out_of_order_drop_the_link() {
    let (mut raw, mut link) = Raw::admitted(options()).await;
    let second = DataHeader {
        total: 4,
        offset: 2,
        ..header(1, 0)
    };
    raw.write(&piece(&second, &[1.0, 1.0])).await;
    let cause = next_end(&mut link).await;
    assert!(
        matches!(cause, LinkError::Frame(FrameError::Data(_))),
        "{cause}"
    );
}
