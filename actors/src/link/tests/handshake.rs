//! Addresses and handshakes: who is let in, refused, or dropped unheard.

use super::*;

#[tokio::test]
async fn each_refusal_reaches_the_dialler_with_its_code() {
    let mut listener = listener().await;
    let address = listener.address().clone();
    let judging = tokio::spawn(async move {
        for _ in 0..4 {
            assert!(
                listener
                    .next()
                    .await
                    .admit(&expected(), options())
                    .await
                    .is_err()
            );
        }
    });
    let wrong = Token::new("guess".into());
    for (wrong, code) in [
        (
            Hello {
                token: Some(wrong),
                ..hello()
            },
            RefusalCode::Token,
        ),
        (
            Hello {
                run: Some(RunId(8)),
                ..hello()
            },
            RefusalCode::Run,
        ),
        (
            Hello {
                protocol: PROTOCOL + 1,
                ..hello()
            },
            RefusalCode::Protocol,
        ),
        (
            Hello {
                numerics: Fingerprint([9; 32]),
                ..hello()
            },
            RefusalCode::Numerics,
        ),
    ] {
        match dial(&address, wrong, options(), DEADLINE).await {
            Err(DialError::Refused { refusal, .. }) => assert_eq!(refusal.code, code),
            Err(other) => panic!("{code:?}: {other}"),
            Ok(_) => panic!("{code:?}: was let in"),
        }
    }
    soon(judging).await.unwrap();
}

#[tokio::test]
async fn garbage_costs_the_stranger_its_connection_and_nobody_else_anything() {
    let address = Address::from("127.0.0.1:0");
    let strict = ListenOptions {
        deadline: Duration::from_millis(200),
        pending: 2,
        near: Near::Tcp,
    };
    let mut listener = Listener::bind(&address, strict).await.unwrap();
    let mut future = frame::control_frame(&hello()).unwrap();
    future[4] = 9;
    let noise: Vec<u8> = (0..4096_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let long = frame::control_frame(&"x".repeat(20_000)).unwrap();
    let data = piece(
        &DataHeader {
            total: 1,
            ..header(1, 0)
        },
        &[1.0],
    );
    let not_hello = frame::control_frame(&HelloReply::Welcome {
        checksum: Checksum::On,
        window: 0,
    });
    let strangers: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &noise,
        &long,
        &data,
        &not_hello.unwrap(),
        &future,
        b"RSLN",
        b"",
    ];
    for stranger in strangers {
        let mut raw = Raw(TcpStream::connect(listener.address().to_string())
            .await
            .unwrap());
        raw.write(stranger).await;
        assert!(
            raw.is_dropped().await,
            "{:?}",
            &stranger[..stranger.len().min(16)]
        );
    }
    let address = listener.address().clone();
    let admit = async { listener.next().await.admit(&expected(), options()).await };
    let (dialled, admitted) =
        soon(async { tokio::join!(dial(&address, hello(), options(), DEADLINE), admit) }).await;
    assert!(dialled.is_ok() && admitted.is_ok());
}

#[tokio::test]
async fn an_address_in_use_is_named_with_a_remedy() {
    let first = listener().await;
    let error = Listener::bind(first.address(), ListenOptions::default()).await;
    let error = error.err().expect("the port is taken").to_string();
    let expected = format!(
        "{} is in use by another process; stop it or choose another port (0 takes a free one)",
        first.address()
    );
    assert_eq!(error, expected);
}

#[tokio::test]
async fn a_socket_file_left_by_a_killed_process_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let address = Address::Unix(directory.path().join("link"));
    drop(
        Listener::bind(&address, ListenOptions::default())
            .await
            .unwrap(),
    );
    // The aborted task drops the socket when it is next scheduled.
    let bind = async {
        loop {
            match Listener::bind(&address, ListenOptions::default()).await {
                Ok(listener) => break listener,
                Err(BindError::InUse { .. }) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    };
    let second = soon(bind).await;
    let third = Listener::bind(second.address(), ListenOptions::default()).await;
    assert!(
        matches!(third, Err(BindError::InUse { .. })),
        "a live one is left alone"
    );
}

#[tokio::test]
async fn dialling_nobody_and_dialling_the_deaf_are_told_apart() {
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(deaf.local_addr().unwrap().to_string());
    let quick = Duration::from_millis(100);
    let silent = dial(&address, hello(), options(), quick).await;
    assert!(matches!(silent, Err(DialError::Timeout { .. })));
    drop(deaf);
    let nobody = dial(&address, hello(), options(), DEADLINE).await;
    assert!(matches!(nobody, Err(DialError::Connect { .. })));
}

/// Which way a process of this host comes to a listener.
async fn way(options: ListenOptions, role: Role) -> String {
    let listener = Listener::bind(&Address::from("127.0.0.1:0"), options).await;
    let mut listener = listener.expect("a free port");
    let address = listener.address().clone();
    let hello = Hello { role, ..hello() };
    let admit = async {
        let knock = listener.next().await;
        let peer = knock.peer.clone();
        (peer, knock.admit(&expected(), super::options()).await)
    };
    let dialled = dial(&address, hello, super::options(), DEADLINE);
    let (dialled, (peer, admitted)) = soon(async { tokio::join!(dialled, admit) }).await;
    let (mut dialled, admitted) = (dialled.expect("welcome"), admitted.expect("admitted"));
    let values = awkward(3 * MIB / 4);
    let sent = admitted.sender().send(&tensor(1, values.clone())).await;
    sent.expect("there is room");
    assert_eq!(bits(&next_tensor(&mut dialled).await.1), bits(&values));
    peer
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn tensors_of_one_host_come_by_a_unix_socket_where_one_is_offered() {
    let slice = SliceId(0);
    let near = ListenOptions::with_near_socket();
    assert_eq!(way(near, Role::WorkerData { slice }).await, "unix socket");
    let by_tcp = [
        way(near, Role::Worker).await,
        way(ListenOptions::default(), Role::WorkerData { slice }).await,
    ];
    for peer in by_tcp {
        assert!(peer.starts_with("127.0.0.1:"), "{peer}");
    }
}
