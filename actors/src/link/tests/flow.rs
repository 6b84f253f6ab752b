//! What flows over a healthy link: bits, order, bounds, buffers.

use super::*;

#[tokio::test]
async fn every_bit_arrives_in_one_piece_and_in_many() {
    let directory = tempfile::tempdir().unwrap();
    let unix = Address::Unix(directory.path().join("link"));
    for (address, checksum) in [
        (Address::from("127.0.0.1:0"), Checksum::On),
        (Address::from("127.0.0.1:0"), Checksum::Off),
        (unix.clone(), Checksum::On),
        (unix, Checksum::Off),
    ] {
        let listener = Listener::bind(&address, ListenOptions::default())
            .await
            .unwrap();
        let side = || LinkOptions {
            checksum,
            ..options()
        };
        let (mut there, mut here) = pair_on(listener, side(), side()).await;
        for length in [0, 1, 1000, MIB / 4, 5 * MIB / 2 + 3] {
            let values = awkward(length);
            there
                .sender()
                .try_send(&tensor(length as u64, values.clone()))
                .unwrap();
            let (arrived, buffer) = next_tensor(&mut here).await;
            assert_eq!(
                bits(&buffer),
                bits(&values),
                "{length} values, crc {checksum:?}"
            );
            let expected = DataHeader {
                total: length as u64,
                ..header(length as u64, 0)
            };
            assert_eq!(
                DataHeader {
                    sequence: 0,
                    ..arrived
                },
                expected
            );
            here.sender()
                .send_newest(
                    Stream(0),
                    OutTensor {
                        header: expected,
                        values: buffer.share().into(),
                        before: None,
                    },
                )
                .unwrap();
            assert_eq!(bits(&next_tensor(&mut there).await.1), bits(&values));
        }
    }
}

#[tokio::test]
async fn a_crc_is_used_if_either_side_asks_for_it() {
    let off = LinkOptions {
        checksum: Checksum::Off,
        ..options()
    };
    let (there, mut here) = pair(off, options()).await;
    there.sender().try_send(&tensor(1, vec![1.0])).unwrap();
    assert_eq!(
        *next_tensor(&mut here).await.1,
        [1.0],
        "both sides agree on the crc"
    );
}

#[tokio::test]
async fn control_overtakes_a_tensor_that_is_queued() {
    let (there, mut here) = pair(options(), options()).await;
    there
        .sender()
        .try_send(&tensor(1, vec![1.0; 10 * MIB]))
        .unwrap();
    there.sender().send_control(&"first").unwrap();
    assert_eq!(next_control(&mut here).await, "first");
    assert_eq!(next_tensor(&mut here).await.1.len(), 10 * MIB);
}

#[tokio::test]
async fn tensors_larger_than_the_window_flow_and_buffers_are_used_again() {
    let pool = BufferPool::new(256 * MIB);
    let receiver = LinkOptions {
        window: MIN_WINDOW,
        ..LinkOptions::data(64 << 20, pool.clone())
    };
    let (there, mut here) = pair(options(), receiver).await;
    let (sender, _inbox) = there.split();
    let pushing = tokio::spawn(async move {
        for step in 0..6 {
            sender.send(&tensor(step, awkward(3 * MIB))).await.unwrap();
        }
        sender.flush().await
    });
    for step in 0..6 {
        let (header, values) = next_tensor(&mut here).await;
        assert_eq!((header.step, values.len()), (Step(step), 3 * MIB));
    }
    assert_eq!(soon(pushing).await.unwrap(), Ok(()));
    assert!(
        pool.idle_bytes() <= 2 * 12 * MIB,
        "two buffers at most: one taken, one filling"
    );
}

#[tokio::test]
async fn a_peer_that_does_not_read_bounds_the_sender_and_stops_nobody_else() {
    let in_flight = 8 * MIB;
    let (raw, mut stuck) = Raw::admitted(LinkOptions {
        in_flight,
        ..options()
    })
    .await;
    let values = SharedValues::new(Arc::new(vec![1.0; MIB / 4]));
    let tensor = || OutTensor {
        header: header(1, 0),
        values: values.clone().into(),
        before: None,
    };
    let mut accepted = 0;
    while stuck.sender().try_send(&tensor()) != Err(SendError::Full) {
        accepted += 1;
        assert!(accepted <= 1000, "nothing pushes back");
        tokio::task::yield_now().await;
    }
    let waiting = tokio::spawn({
        let (sender, tensor) = (stuck.sender().clone(), tensor());
        async move { sender.send(&tensor).await }
    });
    let (mut there, mut here) = pair(LinkOptions::control(), LinkOptions::control()).await;
    for beat in 0..100 {
        there
            .sender()
            .send_control(&format!("beat {beat}"))
            .unwrap();
        assert_eq!(next_control(&mut here).await, format!("beat {beat}"));
        here.sender().send_control(&"seen").unwrap();
        assert_eq!(next_control(&mut there).await, "seen");
    }
    let counters = stuck.sender().counters();
    assert!(
        counters.queued_bytes_max <= in_flight as u64,
        "{counters:?}"
    );
    assert!(!waiting.is_finished(), "there was no room");

    drop(raw);
    let cause = next_end(&mut stuck).await;
    assert!(
        matches!(cause, LinkError::Lost { .. } | LinkError::PeerClosed),
        "{cause}"
    );
    assert_eq!(soon(waiting).await.unwrap(), Err(cause));
    assert_eq!(stuck.sender().counters().queued_bytes, 0);
}

#[tokio::test]
async fn a_newer_version_aborts_the_older_half_way() {
    let (mut raw, link) = Raw::admitted(options()).await;
    let weights = |step| tensor(step, vec![step as f32; 12 * MIB]);
    link.sender().send_newest(Stream(0), weights(1)).unwrap();
    // The raw peer's window of 32 MiB; then there is no credit, with 16 MiB to go.
    for at in 0..32 {
        assert_eq!(raw.read_piece().await, (1, at * MIB as u64 / 4));
    }
    link.sender().send_newest(Stream(0), weights(2)).unwrap();
    link.sender().send_newest(Stream(0), weights(3)).unwrap();
    raw.write(&frame::credit_frame(Credit {
        bytes: 1 << 20,
        lane: 0,
    }))
    .await;
    assert_eq!(raw.read_piece().await, (3, 0));
    assert_eq!(link.sender().counters().superseded, 2);
}

#[tokio::test]
async fn covered_pushes_are_read_without_a_buffer() {
    let pool = BufferPool::new(256 * MIB);
    let receiver = LinkOptions {
        want: Box::new(|header| match header.step {
            Step(1) => Wanted::Discard,
            Step(_) => Wanted::Take(None),
        }),
        ..LinkOptions::data(64 << 20, pool.clone())
    };
    let (there, mut here) = pair(options(), receiver).await;
    let (sender, _inbox) = there.split();
    for _ in 0..4 {
        sender.send(&tensor(1, vec![1.0; 6 * MIB])).await.unwrap();
    }
    sender.send(&tensor(2, vec![2.0; 2])).await.unwrap();
    let (header, values) = next_tensor(&mut here).await;
    assert_eq!((header.step, &*values), (Step(2), [2.0, 2.0].as_slice()));
    assert_eq!(pool.idle_bytes(), 0);
}

#[tokio::test]
async fn both_ends_learn_of_a_close() {
    let (mut there, mut here) = pair(options(), options()).await;
    there.sender().send_control(&"last words").unwrap();
    soon(there.sender().flush()).await.unwrap();
    there.sender().close("fenced");
    assert_eq!(
        next_end(&mut there).await,
        LinkError::ClosedHere("fenced".into())
    );
    assert_eq!(
        there.sender().try_send(&tensor(1, vec![1.0])),
        Err(SendError::Closed(LinkError::ClosedHere("fenced".into())))
    );
    assert_eq!(next_control(&mut here).await, "last words");
    assert_eq!(next_end(&mut here).await, LinkError::PeerClosed);
}

#[tokio::test]
async fn touched_rows_of_a_gradient_arrive_as_the_whole_in_fewer_bytes() {
    for checksum in [Checksum::On, Checksum::Off] {
        let side = || LinkOptions {
            checksum,
            ..options()
        };
        let (there, mut here) = pair(side(), side()).await;
        let length = 5 * MIB / 8 + 3;
        let mut values = vec![0.0_f32; length];
        // Over the border of two pieces too.
        for start in [0, MIB / 4 - 5, length - 10] {
            values[start..start + 10].copy_from_slice(&awkward(10));
        }
        values[77] = -0.0;
        there.sender().try_send(&tensor(1, values.clone())).unwrap();
        let (header, arrived) = next_tensor(&mut here).await;
        assert_eq!(header.encoding, Encoding::F32);
        assert_eq!(bits(&arrived), bits(&values));
        // Weights are never looked at.
        let mut weights = tensor(2, values.clone());
        weights.header.kind = Kind::Weights;
        there.sender().try_send(&weights).unwrap();
        assert_eq!(bits(&next_tensor(&mut here).await.1), bits(&values));
        soon(there.sender().flush()).await.unwrap();
        let (out, into) = (there.sender().counters(), here.sender().counters());
        let whole = 4 * length as u64;
        assert_eq!(out.bytes_out, into.bytes_in);
        assert!(out.bytes_saved > whole - 300, "{out:?}");
        assert!((whole..whole + 3000).contains(&out.bytes_out), "{out:?}");
    }
}

#[tokio::test]
async fn a_version_arrives_as_the_changes_since_the_one_before() {
    let length = 5 * MIB / 8 + 3;
    let before = awkward(length);
    let held = JointBuffer::new(BufferPool::new(0).take(length));
    let place = held.part(0..length);
    place.write(0..length, |values| values.copy_from_slice(&before));
    let side = || LinkOptions {
        want: {
            let held = held.clone();
            Box::new(move |_| Wanted::Take(Some(held.part(0..length))))
        },
        ..options()
    };
    let (there, mut here) = pair(options(), side()).await;
    let mut after = before.clone();
    // Over the border of two pieces too.
    for start in [0, MIB / 4 - 5, length - 10] {
        after[start..start + 10].fill(-0.0);
    }
    let mut next = tensor(2, after.clone());
    next.header.kind = Kind::Weights;
    next.header.based_on = Some(Step(1));
    next.before = Some(SharedValues::new(Arc::new(before)));
    there.sender().try_send(&next).unwrap();
    assert_eq!(bits(&next_tensor(&mut here).await.1), bits(&after));
    // What has changed everywhere comes whole.
    let other: Vec<f32> = after.iter().map(|value| value + 1.0).collect();
    next.values = SharedValues::new(Arc::new(other.clone())).into();
    there.sender().try_send(&next).unwrap();
    assert_eq!(bits(&next_tensor(&mut here).await.1), bits(&other));
    let out = there.sender().counters();
    let whole = 4 * length as u64;
    assert!(out.bytes_saved > whole - 300, "{out:?}");
    assert!((whole..whole + 3000).contains(&out.bytes_out), "{out:?}");
}

#[tokio::test]
async fn changes_to_what_is_not_here_end_the_link() {
    let (there, mut here) = pair(options(), options()).await;
    let mut next = tensor(2, vec![1.0; 100]);
    next.header.based_on = Some(Step(1));
    next.before = Some(SharedValues::new(Arc::new(vec![1.0; 100])));
    there.sender().try_send(&next).unwrap();
    let cause = next_end(&mut here).await.to_string();
    assert!(cause.contains("changes to what is not here"), "{cause}");
}

#[tokio::test]
async fn a_link_counts_what_it_carries() {
    let (there, mut here) = pair(options(), options()).await;
    there.sender().send_control(&"one").unwrap();
    there
        .sender()
        .try_send(&tensor(1, vec![1.0; 3 * MIB / 8]))
        .unwrap();
    next_control(&mut here).await;
    next_tensor(&mut here).await;
    soon(there.sender().flush()).await.unwrap();
    let (out, into) = (there.sender().counters(), here.sender().counters());
    assert_eq!((out.frames_out, into.frames_in), (3, 3));
    assert_eq!(out.bytes_out, into.bytes_in);
    assert!(out.bytes_out > 3 * MIB as u64 / 2);
    assert_eq!(
        (out.queued_bytes, out.queued_bytes_max),
        (0, 3 * MIB as u64 / 2)
    );
}
