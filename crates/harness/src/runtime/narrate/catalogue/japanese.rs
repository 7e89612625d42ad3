//! The sentences of the controller in Japanese.

use super::Sentence;

pub(super) fn select_template(sentence: Sentence) -> &'static str {
    match sentence {
        Sentence::ApproveCall => "{tool} を使用するには承認が必要です ({signal})。",
        Sentence::ApproveCallWith => "{tool} を使用するには承認が必要です ({signal}): {arguments}",
        Sentence::ApproveAction => "承認が必要です: {signal}。",
        Sentence::Awaits => "{signal} が届くまで一時停止しています。",
        Sentence::Answered => "{signal} に回答がありました。作業を続けます。",
        Sentence::Expired => "{signal} には期限までに回答がありませんでした。",
        Sentence::GivenUp => "{signal} は取り下げられました。",
        Sentence::Unfit => "{signal} への回答は形式が合わず、受け付けられませんでした。",
        Sentence::Calls => "エージェントは {tools} を求めています。",
        Sentence::NotDone => "操作は実行されませんでした: {reason}",
        Sentence::ToolSucceeded => "{tool} は成功しました。",
        Sentence::ToolFailed => "{tool} は失敗しました。エージェントに伝えます。",
        Sentence::ToolInDoubt => "{tool}: 効果があったかどうかは不明です。",
        Sentence::SomeTool => "ツール",
        Sentence::Summarised => {
            "モデルにはメッセージ {from} から {to} の代わりに要約が示されます。メッセージは保存されています。"
        }
        Sentence::NotSummarised => "要約を作成できませんでした ({category})。何も変わっていません。",
        Sentence::Stopped => "ターンは停止されました。",
        Sentence::Continues => "この会話は {session} の続きです。",
        Sentence::CutOff => "{text}… 残り {bytes} バイト、ダイジェスト {digest}",
        Sentence::Done => "完了しました。",
    }
}
