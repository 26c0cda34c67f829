//! Any bytes to any method: an answer, never a panic.

use super::*;
use door_etcd::methods::Methods;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value};

/// How long one call may be open: some wait for others.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(20);

/// A message whose fields are filled from bytes, so that more than the decoder is reached.
fn filled(descriptor: &MessageDescriptor, seed: &mut impl Iterator<Item = u8>, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let Some(byte) = seed.next() else { break };
        if byte < 100 {
            continue;
        }
        let value = match field.kind() {
            Kind::Bool => Value::Bool(byte % 2 == 0),
            Kind::Int64 => Value::I64(match byte % 4 {
                0 => i64::MAX,
                1 => i64::MIN,
                _ => i64::from(byte % 7) - 2,
            }),
            Kind::Uint64 => Value::U64(u64::from(byte)),
            Kind::Enum(_) => Value::EnumNumber(i32::from(byte % 6)),
            Kind::String => Value::String(["", "root", "a on b", "\u{0}"][usize::from(byte % 4)].to_string()),
            Kind::Bytes => Value::Bytes(seed.take(usize::from(byte % 4)).collect::<Vec<_>>().into()),
            Kind::Message(inner) if depth > 0 => Value::Message(filled(&inner, seed, depth - 1)),
            _ => continue,
        };
        let value = if field.is_list() { Value::List(vec![value]) } else { value };
        message.set_field(&field, value);
    }
    message
}

async fn call(bed: &Bed, path: &str, message: &[u8]) {
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    let request = http::Request::post(path).header("content-type", "application/grpc");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answered = async {
        let response = bed.connection().answer(request).await;
        assert_eq!(response.status(), 200);
        let _ = response.into_body().collect().await;
    };
    let _ = tokio::time::timeout(PATIENCE, answered).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for bed in [Bed::new(), Bed::with(MemoryStore::new(true), Limits::default())] {
                bed.put_if_open().await;
                for method in &Methods::table().all {
                    call(&bed, &method.path, &bytes).await;
                    let message = filled(&method.input, &mut bytes.iter().copied().cycle().take(400), 4);
                    call(&bed, &method.path, &message.encode_to_vec()).await;
                }
                for (url, _) in Methods::table().urls() {
                    let request = http::Request::post(url).body(Full::new(Bytes::from(bytes.clone()))).unwrap();
                    let answered = async {
                        let _ = bed.connection().answer(request).await.into_body().collect().await;
                    };
                    let _ = tokio::time::timeout(PATIENCE, answered).await;
                }
            }
        });
    }
}

impl Bed {
    async fn put_if_open(&self) {
        let _ = self.kv().put(put("a", "1")).await;
    }
}
