//! The notices, records and notes that a repair writes beside its change.

use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{DocumentStore, RowMutation, TenantId};
use singletree_harness::{AuditRecord, Notice, NoticeSettings, NoticeType, StoreDoctor, UnsentTurn};
use singletree_telemetry::SpanSettings;

use crate::bench::{Log, plain};
use crate::doctor::{SESSION, chat, rows, store_of_rows, waiting_store};

// INV-2: whoever waits for the end of a turn hears of it, also where a repair ends it.
#[tokio::test]
async fn a_repair_writes_notices_and_a_record_of_the_audit() {
    let mut puts = rows(&waiting_store().await).await;
    puts.retain(|it| !matches!(it, RowMutation::Position(_)));
    let store = store_of_rows(puts).await;
    let shared = Arc::new(store.clone());
    let notices = NoticeSettings::new().with_tenant_types(TenantId::single(), NoticeType::ALL);
    let doctor = StoreDoctor::new(shared.clone(), shared).notices(notices).audit(Duration::from_hours(1));
    let doctor = doctor.note_unsent_turns(Duration::from_hours(1));
    let mended = doctor.repair().await.unwrap().mended;
    let codes: Vec<_> = mended.iter().map(|it| it.symptom.code()).collect();

    let documents =
        async |kind: &str| store.read_documents(&TenantId::single(), kind, None, 99).await.unwrap();
    let noticed: Vec<Notice> =
        documents(Notice::KIND).await.iter().map(|it| Notice::from_document(it).unwrap()).collect();
    let types: Vec<_> = noticed.iter().map(|it| it.what.notice_type()).collect();
    assert_eq!(types, [NoticeType::Resumed, NoticeType::Errored]);
    // The turn that the repair ended has a trace, which is exported.
    let unsent: Vec<_> =
        documents(UnsentTurn::KIND).await.iter().map(|it| UnsentTurn::from_document(it).unwrap()).collect();
    let [unsent] = unsent.as_slice() else { panic!("{unsent:?}") };
    let chat = chat(store.reopen(), &plain(&Log::default()));
    let spans = unsent.read_trace(&chat).await.unwrap().render_spans(&SpanSettings::new());
    assert!(spans.iter().any(|span| span.name.as_ref() == "openarmature.invocation"), "{spans:?}");
    let recorded = documents(AuditRecord::KIND).await;
    let recorded: Vec<_> = recorded.iter().map(|it| AuditRecord::from_document(it).unwrap()).collect();
    assert!(recorded.iter().all(|it| it.action == "session.repaired" && it.subject == SESSION));
    let mut found: Vec<_> = recorded.iter().map(|it| it.details["finding"].as_str().unwrap()).collect();
    found.sort_unstable();
    let mut expected = codes.clone();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(!codes.is_empty());
}
