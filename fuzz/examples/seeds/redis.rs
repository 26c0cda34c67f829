//! Requests as Redis clients send them.

use crate::Seeds;

pub fn add(seeds: &mut Seeds) {
    let requests: [&[u8]; 9] = [
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n10\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"PING\r\nSET a \"b \\x41\\n\" \r\n",
        b"*1\r\n$4\r\nPING\r\n*0\r\n*-1\r\n\r\nget 'it\\'s'\r\n",
        b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
        b"*11\r\n$3\r\nDEL\r\n",
        b"*1\r\n$70000\r\n",
        b"*1000000\r\n",
        b"*2\r\n$-1\r\n",
        b"get \"unbalanced\r\n",
    ];
    for (place, request) in requests.into_iter().enumerate() {
        let mut bytes = vec![(place as u8) << 1 | (place % 2) as u8];
        bytes.extend_from_slice(request);
        seeds.add("redis_request", bytes);
    }
}
