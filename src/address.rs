//! Addresses on the command line: `HOST:PORT`, or `unix:PATH`.

/// An address to dial.
pub(crate) fn dialled(text: &str) -> Result<String, String> {
    parse(text, 1)
}

/// An address to listen on; port 0 takes a free one.
pub(crate) fn listened(text: &str) -> Result<String, String> {
    parse(text, 0)
}

/// The address of an HTTP interface.
pub(crate) fn http(text: &str) -> Result<String, String> {
    match text.starts_with("unix:") || text.contains("://") {
        true => Err("expected HOST:PORT alone, such as 127.0.0.1:7001".into()),
        false => parse(text, 1),
    }
}

fn parse(text: &str, least_port: u16) -> Result<String, String> {
    let path = text.strip_prefix("unix:").map(|path| !path.is_empty());
    let tcp = || {
        let parts = text.rsplit_once(':');
        parts.is_some_and(|(host, port)| {
            let bracketed = host.starts_with('[') && host.ends_with(']');
            let plain = !host.is_empty() && !host.contains(':');
            let port = port.parse::<u16>();
            (bracketed || plain) && port.is_ok_and(|port| port >= least_port)
        })
    };
    match path.unwrap_or_else(tcp) {
        true => Ok(text.into()),
        false => Err(format!(
            "expected HOST:PORT with a port from {least_port} to 65535"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_addresses_pass() {
        for good in ["127.0.0.1:7000", "node-3:1", "[::1]:7000", "unix:/run/r"] {
            assert_eq!(dialled(good).as_deref(), Ok(good));
        }
        for bad in ["foo", "foo:", ":7000", "::1:7000", "a:65536", "unix:", ""] {
            assert!(dialled(bad).is_err() && listened(bad).is_err(), "{bad}");
        }
        for bad in ["http://127.0.0.1:7001", "unix:/run/r", "nonsense", "host:0"] {
            let why = http(bad).expect_err(bad);
            assert!(why.starts_with("expected HOST:PORT"), "{why}");
        }
        assert_eq!(http("node-3:7001").as_deref(), Ok("node-3:7001"));
        assert!(dialled("host:0").is_err());
        assert_eq!(listened("host:0").as_deref(), Ok("host:0"));
    }
}
