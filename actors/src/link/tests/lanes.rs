//! Links between processes of one host, whose payloads pass through lanes.

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;
use crate::link::near::Near;

/// A listener on a Unix socket; its directory is gone with the first.
async fn near_listener() -> (tempfile::TempDir, Listener) {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("link"));
    let listener = Listener::bind(&address, ListenOptions::default()).await;
    (directory, listener.expect("a free name"))
}

#[tokio::test]
async fn long_payloads_pass_by_lane_and_short_ones_by_the_socket() {
    let (_directory, listener) = near_listener().await;
    let (mut there, mut here) = pair_on(listener, options(), options()).await;
    for (length, by_lane) in [(100, 0), (MIB / 4, MIB), (5 * MIB / 8, 5 * MIB / 2 + MIB)] {
        let values = awkward(length);
        there
            .sender()
            .try_send(&tensor(1, values.clone()))
            .expect("there is room");
        assert_eq!(bits(&next_tensor(&mut here).await.1), bits(&values));
        let back = tensor(1, values.clone());
        here.sender().send_newest(Stream(0), back).expect("open");
        assert_eq!(bits(&next_tensor(&mut there).await.1), bits(&values));
        for link in [&there, &here] {
            let counters = link.sender().counters();
            assert_eq!(counters.bytes_by_lane, by_lane as u64, "{length} values");
        }
    }
    let (there, _here) = pair(options(), options()).await;
    let counters = there.sender().counters();
    assert_eq!(counters.bytes_by_lane, 0, "TCP has no lanes");
}

#[tokio::test]
async fn what_a_full_lane_has_no_room_for_goes_by_the_socket_in_order() {
    let (_directory, listener) = near_listener().await;
    // The receiver's lane has room for two tensors of this length; nobody reads for a while.
    let length = MIB / 8;
    let receiver = LinkOptions::data(length as u64, BufferPool::new(256 * MIB));
    let (there, mut here) = pair_on(listener, options(), receiver).await;
    let (sender, _inbox) = there.split();
    let values = |step: u64| vec![step as f32 + 0.5; length];
    for step in 0..20 {
        sender.try_send(&tensor(step, values(step))).expect("room");
    }
    for step in 0..20 {
        let (header, arrived) = next_tensor(&mut here).await;
        assert_eq!(
            (header.step, bits(&arrived)),
            (Step(step), bits(&values(step)))
        );
    }
    let by_lane = sender.counters().bytes_by_lane;
    assert!(by_lane >= 2 * 4 * length as u64, "{by_lane}");
}

#[tokio::test]
async fn a_sender_without_a_lane_that_names_one_is_dropped() {
    let (mut raw, mut link) = Raw::admitted(options()).await;
    let values = awkward(MIB / 8);
    let header = DataHeader {
        total: values.len() as u64,
        ..header(1, 0)
    };
    let (route, length) = (frame::Route::Lane, 4 * values.len());
    let mut head = Vec::new();
    frame::data_head_of(&header, length, Checksum::On, route, || 0, &mut head).unwrap();
    raw.write(&head).await;
    assert_eq!(
        next_end(&mut link).await,
        LinkError::Frame(FrameError::Flags(3))
    );
    assert!(raw.is_dropped().await);
}

/// What a near peer that is driven by hand hands over, and the link that let it in.
async fn admitted_near(lane: std::os::fd::OwnedFd) -> (Near, Link) {
    let (_directory, mut listener) = near_listener().await;
    let Address::Unix(path) = listener.address().clone() else {
        unreachable!("it was bound to a path");
    };
    let stream = tokio::net::UnixStream::connect(path).await.unwrap();
    let mut near = Near::new(stream);
    near.give(lane);
    let hello = frame::control_frame(&hello()).unwrap();
    near.write_all(&hello).await.unwrap();
    let knock = soon(listener.next()).await;
    let link = knock.admit(&expected(), options()).await.unwrap();
    let mut first = [0];
    soon(near.read_exact(&mut first)).await.unwrap();
    (near, link)
}

#[tokio::test]
async fn a_lane_of_no_use_is_as_good_as_none() {
    // It could shrink under the one who writes to it.
    let memory = memfd_create("resilin-lane", MemfdFlags::ALLOW_SEALING).unwrap();
    let (mut near, link) = admitted_near(memory).await;
    assert!(near.taken().is_some(), "the other direction has one");
    link.sender().try_send(&tensor(1, awkward(MIB))).unwrap();
    assert_eq!(link.sender().counters().bytes_by_lane, 0);
}
