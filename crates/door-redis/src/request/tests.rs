use super::*;

fn all(parser: &mut Parser) -> Result<Vec<Vec<String>>, String> {
    let mut commands = Vec::new();
    while let Some(words) = parser.next().map_err(|error| error.0)? {
        commands.push(words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect());
    }
    Ok(commands)
}

fn parse(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
    let mut parser = Parser::default();
    parser.buffer().extend_from_slice(bytes);
    all(&mut parser)
}

const PIPELINE: &[u8] =
    b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\nPING \"a b\\x41\\n\" 'it\\'s'\r\n*0\r\n*-1\r\n*3\r\n$3\r\nSET\r\n$0\r\n\r\n$3\r\n\r\n\n\r\n";

#[test]
fn pieces_of_any_size_give_the_same_commands() {
    let whole = parse(PIPELINE).unwrap();
    assert_eq!(whole, [vec!["GET", "a"], vec!["PING", "a bA\n", "it's"], vec!["SET", "", "\r\n\n"]]);
    for size in 1..PIPELINE.len() {
        let (mut parser, mut commands) = (Parser::default(), Vec::new());
        for piece in PIPELINE.chunks(size) {
            parser.buffer().extend_from_slice(piece);
            commands.extend(all(&mut parser).unwrap());
        }
        assert_eq!(commands, whole, "pieces of {size}");
        assert_eq!(parser.held(), 0);
    }
}

#[test]
fn errors_are_those_of_redis() {
    let long = vec![b'x'; LINE_BYTES_MAX + 1];
    let cases: [(&[u8], &str); 11] = [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*2147483647\r\n", "invalid multibulk length"),
        (b"*1\r\nGET\r\n", "expected '$', got 'G'"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n$abc\r\n", "invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
        (b"PING \"x\r\n", "unbalanced quotes in request"),
        (b"PING 'x'y\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&[b"*", &long[..]].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "too big bulk count string"),
    ];
    for (bytes, text) in cases {
        assert_eq!(parse(bytes), Err(format!("ERR Protocol error: {text}")));
    }
    let words = b"$1000000\r\n".iter().copied().chain(std::iter::repeat_n(b'y', 1_000_000)).chain(*b"\r\n");
    let command = b"*9\r\n".iter().copied().chain(words.collect::<Vec<u8>>().repeat(5)).collect::<Vec<u8>>();
    assert!(parse(&command).unwrap_err().contains("the command has more than"));
}

#[test]
fn announcements_allocate_nothing() {
    let mut parser = Parser::default();
    parser.buffer().extend_from_slice(b"*65536\r\n$1000000\r\n");
    assert_eq!(parser.next(), Ok(None));
    assert!(parser.partial.as_ref().is_some_and(|partial| partial.words.capacity() == 0));
    assert!(parser.bytes.capacity() < 1024);
}

#[test]
fn little_is_taken_from_who_has_not_said_who_it_is() {
    let strict = |bytes: &[u8]| {
        let mut parser = Parser::default();
        parser.set_strict(true);
        parser.buffer().extend_from_slice(bytes);
        all(&mut parser)
    };
    assert_eq!(strict(b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n").unwrap(), [["AUTH", "x"]]);
    assert_eq!(strict(b"*11\r\n"), Err("ERR Protocol error: unauthenticated multibulk length".into()));
    assert_eq!(strict(b"*1\r\n$16385\r\n"), Err("ERR Protocol error: unauthenticated bulk length".into()));
}
