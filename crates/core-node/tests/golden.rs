//! Frames are the bytes of docs/formats/golden, and a frame of another version is refused with what to do.

#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use bytes::Bytes;
use core_node::frame::{decode, FrameBuilder, FRAME_VERSION};

#[test]
fn frames_are_those_of_the_first_release() {
    for (name, bytes) in golden::lines("frames") {
        let frame = decode(bytes.clone().into()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut builder = FrameBuilder::new(frame.to, frame.from);
        frame.items.iter().for_each(|item| builder.push(item));
        assert_eq!(golden::hex(&builder.finish()), golden::hex(&bytes), "{name}");
    }
}

#[test]
fn frame_of_another_version_is_refused_with_both_versions_and_what_to_do() {
    let mut bytes = golden::line("frames", "frame 00");
    bytes[4] = FRAME_VERSION + 1;
    let newer = decode(Bytes::from(bytes.clone())).unwrap_err().to_string();
    let expected = format!("frame has version {}, and this build", FRAME_VERSION + 1);
    assert!(
        newer.starts_with(&expected) && newer.contains(&format!("reads up to {FRAME_VERSION}: install here")),
        "{newer}"
    );
    bytes[4] = FRAME_VERSION - 1;
    let older = decode(Bytes::from(bytes)).unwrap_err().to_string();
    assert!(older.contains("read it with the release of hive that wrote it"), "{older}");
}
