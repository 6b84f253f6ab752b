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
            [0x9d1c_7492, 0x9ee4_443b, 0x4edc_81a7, 0x6ba1_f6f1],
        ),
        (
            every_field(),
            [0xb556_b1b7, 0xe4bd_701d, 0xfe42_a50c, 0x7145_e144],
        ),
        (
            extreme(),
            [0xbc10_bd1b, 0x8334_4ed3, 0xc73e_7f62, 0xa7cd_8b29],
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
            [0xaa87_58fd, 0xe06b_e27e, 0x4d6b_50e8, 0x3f1c_924a],
        ),
        (
            every_field(),
            [0xeeb1_1b5d, 0xef29_8ce6, 0xa9cc_61ba, 0x6e2f_d36c],
        ),
        (
            extreme(),
            [0x0bc3_3ec2, 0x7bd1_46e1, 0x144b_2f5a, 0xb2aa_099b],
        ),
    ] {
        some(62, || stream.next_u32());
        assert_eq!(some(4, || stream.next_u32()), words);
    }
}

#[test]
fn a_position_is_reached_by_seeking_or_by_reading() {
    for (mut stream, words) in [
        (plain(), [0x64d6_9dba, 0x5dc1_7c46]),
        (every_field(), [0xf6f1_4698, 0x7fcd_1c04]),
        (extreme(), [0x9710_f817, 0x39df_5d7b]),
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
    assert_eq!(some(2, || sought.next_u32()), [0xffc6_7a66, 0xe046_b384]);
}

#[test]
fn two_words_make_one_number_low_word_first() {
    let mut stream = every_field();
    assert_eq!(
        some(2, || stream.next_u64()),
        [0xe4bd_701d_b556_b1b7, 0x7145_e144_fe42_a50c]
    );
}

#[test]
fn uniforms_have_these_bits() {
    let mut stream = every_field();
    assert_eq!(
        some(4, || stream.unit_f32().to_bits()),
        [0x3f35_56b1, 0x3f64_bd70, 0x3f7e_42a5, 0x3ee2_8bc2]
    );
    let mut stream = every_field();
    assert_eq!(
        some(4, || stream.unit_f64().to_bits()),
        [
            0x3fec_97ae_03b6_aad6,
            0x3fdc_5178_513f_90a8,
            0x3fed_cb4a_96c5_d831,
            0x3fda_0b53_84ed_9f66
        ]
    );
}

#[test]
fn bounded_numbers_and_the_words_that_they_use() {
    for (bound, numbers, used) in [
        (1, [0, 0, 0, 0, 0, 0, 0, 0], 8),
        (2, [1, 1, 1, 0, 0, 1, 1, 0], 8),
        (10, [7, 8, 9, 4, 1, 9, 7, 4], 8),
        (97, [68, 86, 96, 42, 17, 90, 69, 39], 8),
        // Nearly half of all words are rejected here.
        (
            (1 << 31) + 1,
            [
                2_132_890_246,
                1_999_448_667,
                873_899_785,
                752_085_683,
                421_667_665,
                1_883_134_119,
                1_738_048_143,
                307_591_318,
            ],
            19,
        ),
        (
            u32::MAX,
            [
                3_042_357_686,
                3_837_620_252,
                4_265_780_491,
                1_900_405_059,
                784_435_527,
                3_998_897_333,
                3_061_686_028,
                1_747_799_570,
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

#[test]
fn normals_have_these_bits() {
    let mut stream = every_field();
    assert_eq!(
        some(6, || stream.normal().to_bits()),
        [
            0xbfff_acf4_49b7_80bb,
            0xbffe_db9b_b593_196a,
            0x3fd3_a770_a8bc_75d2,
            0x3fe5_c2fd_a260_60ce,
            0x3f9a_976d_8fd9_fb13,
            0xbff2_a583_a901_34cc
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
    assert_eq!(shuffled(plain(), 10), [4, 3, 0, 8, 9, 1, 7, 2, 5, 6]);
    assert_eq!(
        shuffled(every_field(), 17),
        [8, 9, 13, 5, 10, 1, 3, 16, 0, 4, 7, 11, 2, 6, 15, 14, 12]
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
