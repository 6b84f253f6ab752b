//! Golden vectors of the randomness. The words were made by another implementation of the cipher,
//! checked against RFC 8439; the mappings by hand from their definitions. A change here changes the
//! weights of every run.

use crate::random::{Key, Purpose, Stream};

fn plain() -> Stream {
    Key::new(1, Purpose::Order).stream()
}

fn every_field() -> Stream {
    let key = Key {
        seed: 0x0123_4567_89ab_cdef,
        clock: 42,
        partition: 7,
        purpose: Purpose::Dropout,
        local_step: 3,
        index: 5,
    };
    key.stream()
}

fn extreme() -> Stream {
    let key = Key {
        seed: u64::MAX,
        clock: u64::MAX,
        partition: 0,
        purpose: Purpose::User,
        local_step: u32::MAX,
        index: u32::MAX,
    };
    key.stream()
}

fn some<T>(count: usize, mut draw: impl FnMut() -> T) -> Vec<T> {
    (0..count).map(|_| draw()).collect()
}

#[test]
fn the_first_words_of_three_keys() {
    for (mut stream, words) in [
        (
            plain(),
            [0xabd3_672a, 0x8979_7bed, 0xdc1d_113d, 0x03bf_140d],
        ),
        (
            every_field(),
            [0xa95d_5d40, 0x813c_9350, 0x5ef8_8936, 0xc14f_5c97],
        ),
        (
            extreme(),
            [0x1067_3be4, 0xadbe_4b5d, 0xcfcd_3b39, 0x213d_25c6],
        ),
    ] {
        assert_eq!(some(4, || stream.next_u32()), words);
    }
}

#[test]
fn words_follow_each_other_across_the_buffer() {
    for (mut stream, words) in [
        (
            plain(),
            [0xc232_2c8a, 0x198d_12fa, 0xdadb_77df, 0x8da4_fc8e],
        ),
        (
            every_field(),
            [0x7f41_7ba7, 0x5c43_4904, 0xae3f_9846, 0x2964_508c],
        ),
        (
            extreme(),
            [0xab05_385f, 0xeab8_7e84, 0xe447_c049, 0x3ed2_7735],
        ),
    ] {
        some(62, || stream.next_u32());
        assert_eq!(some(4, || stream.next_u32()), words);
    }
}

#[test]
fn a_position_is_reached_by_seeking_or_by_reading() {
    for (mut stream, words) in [
        (plain(), [0x97bc_67aa, 0x8bb4_cd43]),
        (every_field(), [0x3dec_c121, 0xdb9e_01f6]),
        (extreme(), [0x7843_684f, 0x4c0a_2495]),
    ] {
        stream.seek(1_000_003);
        assert_eq!(some(2, || stream.next_u32()), words);
    }
    let mut read = every_field();
    let words = some(300, || read.next_u32());
    let mut sought = every_field();
    for position in [299, 0, 1, 63, 64, 65, 15, 16, 128, 200] {
        sought.seek(position as u64);
        assert_eq!(sought.next_u32(), words[position], "word {position}");
    }
    // The cipher counts blocks of 16 words in 32 bits: this is as far as a stream goes.
    sought.seek((1 << 36) - 128);
    assert_eq!(some(2, || sought.next_u32()), [0xf7bf_da57, 0x6e5d_5738]);
}

#[test]
fn two_words_make_one_number_low_word_first() {
    let mut stream = every_field();
    assert_eq!(
        some(2, || stream.next_u64()),
        [0x813c_9350_a95d_5d40, 0xc14f_5c97_5ef8_8936]
    );
}

#[test]
fn uniforms_have_these_bits() {
    let mut stream = every_field();
    assert_eq!(
        some(4, || stream.unit_f32().to_bits()),
        [0x3f29_5d5d, 0x3f01_3c93, 0x3ebd_f112, 0x3f41_4f5c]
    );
    let mut stream = every_field();
    assert_eq!(
        some(4, || stream.unit_f64().to_bits()),
        [
            0x3fe0_2792_6a15_2bab,
            0x3fe8_29eb_92eb_df11,
            0x3fbb_2fac_458b_7b28,
            0x3fee_d11d_ecd9_b719
        ]
    );
}

#[test]
fn bounded_numbers_and_the_words_that_they_use() {
    for (bound, numbers, used) in [
        (1, [0, 0, 0, 0, 0, 0, 0, 0], 8),
        (2, [1, 1, 0, 1, 1, 0, 1, 1], 8),
        (10, [6, 5, 3, 7, 5, 1, 8, 9], 8),
        (97, [64, 48, 35, 73, 52, 10, 77, 93], 8),
        // Nearly half of all words are rejected here.
        (
            (1 << 31) + 1,
            [
                1_420_734_112,
                1_084_115_368,
                1_170_052_960,
                228_054_562,
                2_068_084_659,
                1_428_396_681,
                56_508_947,
                1_314_830_393,
            ],
            18,
        ),
        (
            u32::MAX,
            [
                2_841_468_223,
                2_168_230_735,
                1_593_346_357,
                3_243_203_734,
                2_340_105_919,
                456_109_124,
                3_451_440_830,
                4_136_169_317,
            ],
            8,
        ),
    ] {
        let mut stream = every_field();
        assert_eq!(some(8, || stream.below(bound)), numbers, "below {bound}");
        let mut skipped = every_field();
        skipped.seek(used);
        assert_eq!(
            stream.next_u32(),
            skipped.next_u32(),
            "words used below {bound}"
        );
    }
}

/// With correctly rounded logarithms and cosines the last one ends in 71; `libm` decides here.
#[test]
fn normals_have_these_bits() {
    let mut stream = every_field();
    assert_eq!(
        some(6, || stream.normal().to_bits()),
        [
            0x3fa3_83b3_6cd7_f329,
            0x3fdd_8314_4e84_a5f6,
            0x3fe4_66c2_4f6e_5526,
            0xbfe3_098a_aca2_564e,
            0xbfee_66ad_ebb1_3180,
            0x3fe5_84cc_fac5_9f72
        ]
    );
}

#[test]
fn normals_are_normal() {
    let mut stream = plain();
    let draws = some(100_000, || stream.normal());
    let mean = draws.iter().fold(0.0, |sum, x| sum + x) / 1e5;
    let square = draws.iter().fold(0.0, |sum, x| sum + x * x) / 1e5;
    // Five standard errors: 1 / sqrt(n) of the mean, sqrt(2 / n) of the mean square.
    assert!(
        mean.abs() < 0.016 && (square - 1.0).abs() < 0.023,
        "{mean} {square}"
    );
}

#[test]
fn shuffles_have_this_order() {
    let shuffled = |mut stream: Stream, count: u32| {
        let mut items: Vec<u32> = (0..count).collect();
        stream.shuffle(&mut items);
        items
    };
    assert_eq!(shuffled(plain(), 10), [5, 3, 8, 1, 7, 2, 0, 9, 4, 6]);
    assert_eq!(
        shuffled(every_field(), 17),
        [6, 2, 3, 16, 0, 4, 13, 12, 14, 9, 15, 1, 7, 10, 5, 8, 11]
    );
    assert_eq!(shuffled(plain(), 0), []);
    assert_eq!(shuffled(plain(), 1), [0]);
}

#[test]
fn every_part_of_the_key_matters() {
    let base = Key {
        seed: 1,
        clock: 1,
        partition: 1,
        purpose: Purpose::Order,
        local_step: 1,
        index: 1,
    };
    let mut firsts: Vec<u64> = [
        base,
        Key { seed: 2, ..base },
        Key { clock: 2, ..base },
        Key {
            partition: 2,
            ..base
        },
        Key {
            purpose: Purpose::Initial,
            ..base
        },
        Key {
            local_step: 2,
            ..base
        },
        Key { index: 2, ..base },
    ]
    .into_iter()
    .map(|key| key.stream().next_u64())
    .collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 7);
}

#[test]
fn purposes_keep_their_numbers() {
    let numbers = [
        Purpose::Order,
        Purpose::Initial,
        Purpose::Dropout,
        Purpose::Split,
        Purpose::Synthetic,
        Purpose::Audit,
        Purpose::Compression,
        Purpose::Augmentation,
        Purpose::User,
    ]
    .map(|purpose| purpose as u32);
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}
