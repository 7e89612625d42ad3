//! Agents and sessions: listed, made, shown, written out, deleted.

use serde_json::json;

use super::api::{Api, bare};
use crate::support::Rig;

const BEGIN: &str = "2026-01-01T00:00:00.000Z";

// spec: steerable chat, ChatAgent
#[tokio::test]
async fn agents_are_listed_without_what_is_said_to_their_models() {
    let api = Api::start().await;
    let expected = json!({ "items": [
        { "id": "scripted", "name": "Scripted", "description": "Does as it is told.",
          "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z" },
        { "id": "brief", "name": "Brief", "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z" },
    ] });
    assert_eq!(api.get("/v1/agents").await.json(), expected);
}

#[tokio::test]
async fn an_agent_that_nobody_described_is_listed_by_its_name() {
    let rig = Rig::builder().server(|it| it.listed_agents([])).start().await;
    let listed = Api::of(&rig).await.get("/v1/agents").await.json();
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, ["brief", "scripted"]);
}

#[tokio::test]
async fn a_session_is_made_shown_and_listed() {
    let api = Api::start().await;
    let made = api.post("/v1/sessions", json!({ "id": "a/b", "agent": "brief" })).await;
    let session = json!({
        "id": "a/b", "agent": "brief", "prompt_policy": "conversation", "messages": 0,
        "created_at": BEGIN, "updated_at": BEGIN,
    });
    assert_eq!(
        (made.status, made.header("location"), made.json()),
        (201, "/v1/sessions/a%2Fb", session.clone())
    );
    assert_eq!(api.get("/v1/sessions/a%2Fb").await.json(), session);
    assert_eq!(api.get("/v1/sessions").await.json(), json!({ "items": [session] }));
    // The agent is the one that it was made with.
    let outcome = api.send("a%2Fb", "say hello").await;
    assert_eq!(outcome["status"], "completed");
    assert_eq!(api.get("/v1/sessions/a%2Fb").await.json()["agent"], "brief");

    let drawn = api.post("/v1/sessions", json!({})).await;
    assert_eq!((drawn.status, drawn.json()["agent"].clone()), (201, json!("scripted")));
    let again = api.post("/v1/sessions", json!({ "id": "a/b" })).await;
    assert_eq!(
        (again.status, again.json()["error"]["category"].clone()),
        (409, json!("chat_session_exists"))
    );
    let nobody = api.post("/v1/sessions", json!({ "agent": "nobody" })).await;
    assert_eq!(
        (nobody.status, nobody.json()["error"]["category"].clone()),
        (404, json!("chat_agent_unknown"))
    );
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let api = Api::start().await;
    for id in ["c", "a", "b"] {
        assert_eq!(api.post("/v1/sessions", json!({ "id": id })).await.status, 201);
    }
    let ids = |page: &serde_json::Value| {
        page["items"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect::<Vec<_>>()
    };
    let first = api.get("/v1/sessions?limit=2").await.json();
    assert_eq!((ids(&first), first["next"].clone()), (vec![json!("a"), json!("b")], json!("c")));
    // An empty `from` counts as absent.
    assert_eq!(api.get("/v1/sessions?limit=2&from=").await.status, 200);
    let second = api.get("/v1/sessions?limit=2&from=c").await.json();
    assert_eq!((ids(&second), second.get("next")), (vec![json!("c")], None));
}

#[tokio::test]
async fn what_was_written_last_is_listed_first_where_that_is_asked_for() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    for id in ["a", "c", "b.1"] {
        assert_eq!(api.post("/v1/sessions", json!({ "id": id })).await.status, 201);
        rig.clock.advance(std::time::Duration::from_secs(1));
    }
    let page = async |query: &str| {
        let page = api.get(&format!("/v1/sessions?order=recent{query}")).await.json();
        let ids = page["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), page["next"].as_str().map(ToOwned::to_owned))
    };
    let (first, next) = page("&limit=2").await;
    assert_eq!(first, ["b.1", "c"]);
    // Sessions that are written meanwhile come to the front, and do not move the remaining ones.
    api.send("c", "say hello").await;
    assert_eq!(page(&format!("&limit=2&from={}", next.unwrap())).await, (vec!["a".to_owned()], None));
    assert_eq!(page("").await.0, ["c", "b.1", "a"]);
    assert_eq!(page("&from=c").await.0, ["b.1", "a"]);
    for (query, status) in
        [("order=newest", 400), ("order=recent&from=z", 404), ("order=recent&from=%0A", 400)]
    {
        let answer = api.get(&format!("/v1/sessions?{query}")).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_query_is_read_strictly() {
    let api = Api::start().await;
    for query in ["limit=0", "limit=1001", "limit=many", "limt=5", "limit=1&limit=2"] {
        let answer = api.get(&format!("/v1/sessions?{query}")).await;
        let category = answer.json()["error"]["category"].clone();
        assert_eq!((answer.status, category), (400, json!("server_request_invalid")), "{query}");
    }
}

// D25
#[tokio::test]
async fn a_session_that_is_deleted_is_gone_and_its_name_is_free() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    api.send("s", "say one").await;
    for _ in 0..2 {
        let deleted = api.delete("/v1/sessions/s").await;
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    }
    for path in ["", "/messages", "/turns", "/pending", "/export", "/events"] {
        let answer = api.get(&format!("/v1/sessions/s{path}")).await;
        let category = answer.json()["error"]["category"].clone();
        assert_eq!((answer.status, category), (404, json!("chat_session_unknown")), "{path}");
    }
    assert_eq!(api.send("s", "say two").await["replies"][0]["content"], "You said: two");
    assert_eq!(api.get("/v1/sessions/s").await.json()["messages"], 2);
}

// D19
#[tokio::test]
async fn what_is_written_out_can_be_read_in_again_and_holds_no_thought() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    api.send("s", "think").await;
    let export = api.get("/v1/sessions/s/export").await.json();
    assert!(!export.to_string().contains("Nobody may see this."), "{export:#}");
    assert_eq!(
        export["lists"]["messages"][1]["body"],
        json!({ "role": "assistant", "content": [
        { "type": "text", "text": "I have thought." }] })
    );
    rig.chat.import_session(serde_json::from_value(export).unwrap(), Some("copy")).await.unwrap();
    let copied = bare(api.get("/v1/sessions/copy/messages").await.json());
    assert_eq!(
        copied["items"],
        json!([
            { "seq": 0, "role": "user", "content": "think" },
            { "seq": 1, "role": "assistant", "content": "I have thought." },
        ])
    );
}

// D19
#[tokio::test]
async fn thoughts_are_shown_only_where_the_agents_record_says_so() {
    let hidden = Rig::start().await;
    let shown = Rig::builder().server(|it| {
        let listed = crate::support::agents::listed().into_iter().map(|mut agent| {
            agent.other.insert("showThinking".into(), json!(true));
            agent
        });
        it.listed_agents(listed)
    });
    let shown = shown.start().await;
    for (rig, is_shown) in [(&hidden, false), (&shown, true)] {
        let api = Api::of(rig).await;
        let outcome = api.send("s", "think").await;
        let history = api.get("/v1/sessions/s/messages").await.text();
        let export = api.get("/v1/sessions/s/export").await.text();
        let mut events = api.follow("s", None).await;
        let mut told = String::new();
        while let Some(event) = events.json().await {
            told += &event.to_string();
            if event["type"] == "turn.completed" {
                break;
            }
        }
        for text in [outcome.to_string(), history, export, told] {
            assert_eq!(text.contains("Nobody may see this."), is_shown, "{text}");
        }
    }
}
