//! placeholder while the module is written
use crate::{decode, encode_reply, ApplyContext, SpaceRead, SpaceWrite};
use base_engine::EngineError;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::Refusal;
use bytes::Bytes;
pub use base_types::action::RedisReply as Reply;
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command(pub Vec<Bytes>);
pub type Query = Command;
impl Encode for Command {
    fn encode(&self, out: &mut Writer) { out.varint(self.0.len() as u64); for part in &self.0 { out.bytes(part); } }
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> { let n = input.count("arguments")?; Ok(Command((0..n).map(|_| input.bytes("argument")).collect::<Result<_, _>>()?)) }
}
pub fn is_read(argv: &[Bytes]) -> Option<bool> { argv.first().map(|word| word.eq_ignore_ascii_case(b"GET")) }
pub fn validate(command: &Bytes) -> Result<(), Refusal> { decode::<Command>("redis command", command).map(drop) }
fn later() -> Bytes { encode_reply::<u8w>(&Err(Refusal::invalid("UnknownCommand", "the redis backend is being written"))) }
#[allow(non_camel_case_types)] struct u8w;
impl Encode for u8w { fn encode(&self, _o: &mut Writer) {} fn decode(_i: &mut Reader) -> Result<Self, DecodeError> { Ok(u8w) } }
pub fn apply(_at: ApplyContext, _s: &mut dyn SpaceWrite, _c: &Bytes) -> Result<Bytes, EngineError> { Ok(later()) }
pub fn query(_t: u64, _s: &dyn SpaceRead, _c: &Bytes) -> Result<Bytes, EngineError> { Ok(later()) }
