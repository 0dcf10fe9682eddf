//! Tests of the codes of operations and control messages.

use super::*;
use alloc::vec::Vec;

#[test]
fn a_code_means_one_operation_or_control_message() {
    for operation in Operation::ALL {
        assert_eq!(Operation::from_code(operation.code()), Some(operation));
    }
    for control in Control::ALL {
        assert_eq!(Control::from_code(control.code()), Some(control));
    }
    // docs/wire.md has the same codes.
    let operations: Vec<u16> = Operation::ALL.map(Operation::code).to_vec();
    let controls: Vec<u16> = Control::ALL.map(Control::code).to_vec();
    assert_eq!((operations, controls), (alloc::vec![257, 258], alloc::vec![259, 260]));
    let known = (0..=u16::MAX).filter(|code| Operation::from_code(*code).is_some());
    assert_eq!(known.count(), Operation::ALL.len());
}
