use std::os::fd::OwnedFd;

use resilin_core::frame;

use super::*;

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    let at = |place: usize| (place as u8).wrapping_mul(31).wrapping_add(seed);
    (0..length).map(at).collect()
}

/// Both ends of a lane of `values` values, mapped apart as in two processes.
fn ends(values: u64) -> (Outgoing, Incoming) {
    let (incoming, lane) = Incoming::new(values).expect("memory");
    (Outgoing::open(lane).expect("sealed"), incoming)
}

/// What arrives of a piece that was written, its crc, and how far the lane was read.
fn take(incoming: &mut Incoming, length: usize) -> (Vec<u8>, u32, u64) {
    let place = incoming.place(length).expect("as long as it was written");
    let (mut piece, mut hasher) = (vec![0; length], Some(crc32fast::Hasher::new()));
    incoming.read(&place, &mut piece, &mut hasher);
    let crc = hasher.expect("it was given").finalize();
    (piece, crc, incoming.pass(place))
}

#[test]
fn pieces_of_all_lengths_arrive_as_they_were_written() {
    // 160,000 bytes: pieces meet the end of the lane in many places.
    let (mut outgoing, mut incoming) = ends(20_000);
    let mut read = 0;
    for round in 0..200_usize {
        let piece = bytes(SHORTEST + round * 317 % 63_000, round as u8);
        assert!(
            outgoing.write(&piece, read, &mut None),
            "round {round}: all was read"
        );
        let (arrived, crc, until) = take(&mut incoming, piece.len());
        assert!(arrived == piece, "round {round}: other bytes");
        assert_eq!(crc, frame::crc(&piece), "round {round}");
        read = until;
    }
}

#[test]
fn nothing_is_written_over_what_was_not_read() {
    let (mut outgoing, mut incoming) = ends(16 << 10);
    assert_eq!(incoming.bytes(), 128 << 10);
    let pieces = [1, 2, 3].map(|seed| bytes(40 << 10, seed));
    for piece in &pieces {
        assert!(outgoing.write(piece, 0, &mut None));
    }
    assert!(!outgoing.write(&pieces[0], 0, &mut None), "8 KiB are left");
    let (first, _, read) = take(&mut incoming, 40 << 10);
    assert!(first == pieces[0]);
    // The 8 KiB at the end are too short for it: it takes the place of the first at the beginning.
    assert!(
        !outgoing.write(&bytes(41 << 10, 4), read, &mut None),
        "one too long"
    );
    let fourth = bytes(40 << 10, 4);
    assert!(outgoing.write(&fourth, read, &mut None));
    for piece in [&pieces[1], &pieces[2], &fourth] {
        assert!(take(&mut incoming, 40 << 10).0 == **piece);
    }
}

#[test]
fn what_does_not_suit_a_lane_goes_by_the_socket() {
    let (mut outgoing, incoming) = ends(10_000);
    assert!(
        !outgoing.write(&bytes(SHORTEST - 1, 0), 0, &mut None),
        "too short"
    );
    let long = bytes(40_001, 0);
    assert!(!outgoing.write(&long, 0, &mut None), "over half a lane");
    assert!(!outgoing.write(&long, u64::MAX, &mut None));
    let error = incoming.place(40_001).expect_err("nobody writes that");
    assert_eq!(
        error.to_string(),
        "payload in a lane of 40001 bytes is over the limit of 40000 bytes"
    );
}

#[test]
fn a_long_tensor_has_a_lane_of_four_pieces_and_an_empty_one_none() {
    assert_eq!(ends(100 << 20).1.bytes(), 4 << 20);
    assert!(Incoming::new(0).is_err());
}

#[test]
fn not_everything_is_a_lane() {
    let file = memfd_create("resilin-lane", MemfdFlags::ALLOW_SEALING).expect("memory");
    let file = File::from(file);
    file.set_len(1 << 20).expect("memory");
    assert!(Outgoing::open(OwnedFd::from(file)).is_err());
    let long = memfd_create("resilin-lane", MemfdFlags::ALLOW_SEALING).expect("memory");
    fcntl_add_seals(&long, SealFlags::SHRINK).expect("sealed");
    let long = File::from(long);
    long.set_len(LONGEST + 1).expect("memory");
    assert!(
        Outgoing::open(OwnedFd::from(long)).is_err(),
        "nobody makes one as long"
    );
    let (_here, socket) = std::os::unix::net::UnixStream::pair().expect("a socket");
    assert!(Outgoing::open(socket.into()).is_err(), "not even memory");
}
