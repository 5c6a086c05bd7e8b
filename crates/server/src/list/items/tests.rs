//! Tests of shared items: encoded once, equal to unshared ones, bounded by their budget.

use setpoint_api::printing::table::TableOptions;
use setpoint_api::resource_types;
use setpoint_api::{Revision, Time};
use setpoint_store::{CommitCause, Draft, Precondition, Proposal, Retention, Store};

use super::*;
use crate::media::{Form, Representation};

/// Twenty ConfigMaps of 20,000 bytes each.
fn records() -> Vec<Record> {
    let store = Store::in_memory(Retention::default());
    let resource_type = resource_types::find("", "v1", "configmaps").unwrap();
    for n in 0..20 {
        let name = format!("c{n:02}");
        let text = format!(
            "{}\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"a\",\"resourceVersion\":\"\"}},\"data\":{{\"k\":\"{:n>20000}\"}}}}",
            resource_type.type_prefix, ""
        );
        let hole = text.find("\"},\"data\"").unwrap();
        let draft = Draft::with_revision_at(text.into_bytes(), u32::try_from(hole).unwrap());
        let proposal = Proposal::new(CommitCause::default(), Time::EPOCH);
        store
            .commit(proposal.put(resource_type.key("a", &name).unwrap(), Precondition::Absent, draft))
            .unwrap();
    }
    store.snapshot().table(&resource_type.resource).unwrap().iter().cloned().collect()
}

fn encoder(form: Form) -> ItemEncoder {
    let resource_type = resource_types::find("", "v1", "configmaps").unwrap();
    ItemEncoder::new(resource_type, (form, Representation::Whole), TableOptions::default(), Time::EPOCH)
}

fn meta() -> PageMeta {
    PageMeta { revision: Revision(7), continue_token: String::new(), remaining: None }
}

fn bytes(parts: &[BodyPart]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_vec()).collect()
}

fn read(body: Payload) -> Vec<BodyPart> {
    match body {
        Payload::Whole(parts) => parts,
        Payload::Chunked(mut chunks) => std::iter::from_fn(|| chunks.next_chunk()).collect(),
        Payload::Stream(_) => panic!("a stream"),
    }
}

const FORMS: [Form; 3] = [Form::Json, Form::Yaml, Form::Protobuf];

#[test]
fn shared_items_are_encoded_once_and_read_as_unshared_ones() {
    for form in FORMS {
        let budget = ChunkBudget::new(1 << 20);
        let unshared = Items::new(records(), encoder(form), None);
        let shared = Items::new(records(), encoder(form), Some(&budget));
        let expected = bytes(&read(unshared.body(meta())));
        let (first, second) = (read(shared.body(meta())), read(shared.body(meta())));
        assert!(bytes(&first) == expected && bytes(&second) == expected, "{form:?}");
        let chunks = |parts: &[BodyPart]| -> Vec<*const u8> {
            let shared = parts.iter().filter(|part| matches!(part, BodyPart::Shared(_)));
            shared.map(|part| part.as_ptr()).collect()
        };
        assert!(chunks(&first).len() > 3 && chunks(&first) == chunks(&second), "{form:?}");
        assert!(shared.state.lock().records.is_empty(), "records are let go");
        assert!(matches!(shared.body(meta()), Payload::Whole(_)), "its length is known");
    }
}

#[test]
fn readers_that_take_turns_read_the_same() {
    for form in FORMS {
        let budget = ChunkBudget::new(1 << 20);
        let expected = bytes(&read(Items::new(records(), encoder(form), None).body(meta())));
        let items = Items::new(records(), encoder(form), Some(&budget));
        let mut readers = [0, 1, 2].map(|_| (ListReader::new(Arc::clone(&items), meta()), Vec::new()));
        for turn in 0..1000_usize {
            // The second reader is ahead at first, then the third.
            let (reader, out) = &mut readers[[1, 1, 0, 2, 2, 2, 0][turn % 7]];
            out.extend_from_slice(&reader.next_chunk().map(|part| part.to_vec()).unwrap_or_default());
        }
        for (_, out) in &readers {
            assert!(*out == expected, "{form:?}");
        }
    }
}

#[test]
fn list_beyond_the_budget_is_shared_in_part_and_read_whole() {
    for form in FORMS {
        let budget = ChunkBudget::new(150_000);
        let expected = bytes(&read(Items::new(records(), encoder(form), None).body(meta())));
        let items = Items::new(records(), encoder(form), Some(&budget));
        for _ in 0..2 {
            let parts = read(items.body(meta()));
            assert!(bytes(&parts) == expected, "{form:?}");
            let shared = parts.iter().filter(|part| matches!(part, BodyPart::Shared(_))).count();
            assert!(0 < shared && shared < 5, "{form:?}: {shared}");
        }
        drop(items);
        assert!(budget.has_room(150_000), "nothing stays");
    }
}
