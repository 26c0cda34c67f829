//! Records of nodes and changes of the node map are the bytes of docs/formats/golden.

#[path = "../../../fuzz/common/golden.rs"]
mod golden;

use base_types::codec::Encode;
use core_placement::{MapDelta, NodeRecord};

fn check<T: Encode>(file: &str) {
    for (name, bytes) in golden::lines(file) {
        let value = T::from_bytes(bytes.clone().into()).unwrap_or_else(|error| panic!("{file}, {name}: {error}"));
        assert_eq!(golden::hex(&value.to_bytes()), golden::hex(&bytes), "{file}, {name}");
    }
}

#[test]
fn records_and_deltas_are_those_of_the_first_release() {
    check::<NodeRecord>("node-records");
    check::<MapDelta>("map-deltas");
}
