//! The sentences about campaigns in Japanese.

use super::sentence::CampaignSentence;

pub(super) fn select_sentence(sentence: CampaignSentence) -> &'static str {
    match sentence {
        CampaignSentence::Created => "キャンペーン「{name}」が作成されました。",
        CampaignSentence::PlanProposed => {
            "エージェントが計画の第 {version} 版を提案しています（タスク数 {tasks}）。承認待ちです（ダイジェスト {digest}）。"
        }
        CampaignSentence::PlanEdited => {
            "{by} が計画を編集しました：第 {version} 版、タスク数 {tasks}。承認待ちです（ダイジェスト {digest}）。"
        }
        CampaignSentence::PlanApproved => "{by} が計画の第 {version} 版を承認しました。",
        CampaignSentence::PlanRejected => "{by} が計画の第 {version} 版を却下しました。理由：{reason}",
        CampaignSentence::Refused => "提案は受け入れられませんでした：{why}",
        CampaignSentence::NothingProposed => "エージェントは今のところ何も提案していません。",
        CampaignSentence::TaskSelected => "タスク {task} の作業を始めます。",
        CampaignSentence::ApproveCall => {
            "{task} のために {tool} を使うには承認が必要です：{arguments}（ダイジェスト {digest}）"
        }
        CampaignSentence::CallProposed => "{task} のために {tool} を使います。",
        CampaignSentence::CallProposedWith => "{task} のために {tool} を使います：{arguments}",
        CampaignSentence::CallApproved => "{by} が {tool} の使用を承認しました。",
        CampaignSentence::CallRejected => {
            "{by} が {tool} の使用を却下しました。何も実行されていません。理由：{reason}"
        }
        CampaignSentence::CallBegan => "{tool} を開始します。",
        CampaignSentence::CallSucceeded => "{tool} は成功しました。",
        CampaignSentence::CallFailed => "{tool} は失敗しました。結果はエージェントに示されます。",
        CampaignSentence::CallInDoubt => "{tool}：効果があったかどうかは不明で、再実行はしません。",
        CampaignSentence::CallNotMade => "{tool} は呼び出されませんでした。何も実行されていません。",
        CampaignSentence::ArtifactProposed => {
            "エージェントが {task} のために成果物 {artifact} を提案しています。承認待ちです。"
        }
        CampaignSentence::ArtifactApproved => "{by} が成果物 {artifact} を承認しました。",
        CampaignSentence::QuestionAsked => "質問：{question}",
        CampaignSentence::QuestionAnswered => "{by} が回答しました。作業を続けます。",
        CampaignSentence::Confirmed => "{by} が {task} の証明を確認しました。",
        CampaignSentence::TaskCompleted => "タスク {task} は完了しました。すべての証明が揃っています。",
        CampaignSentence::TaskBlocked => "タスク {task} は続行できません：{why}",
        CampaignSentence::TaskUnblocked => "{by} がタスク {task} の続行を許可しました。",
        CampaignSentence::TaskRetried => "{by} がタスク {task} のやり直しを指示しました。",
        CampaignSentence::PausedByPerson => "{by} がキャンペーンを一時停止しました。",
        CampaignSentence::PausedByBudget => "一時停止：予算を使い切りました（{part}）。",
        CampaignSentence::PausedWithoutTask => "一時停止：着手できるタスクがありません。",
        CampaignSentence::PausedIdle => "一時停止：エージェントの提案がありませんでした。",
        CampaignSentence::PausedByFailure => "一時的な障害のため停止しています（{category}）。再試行します。",
        CampaignSentence::PausedByQuota => "一時停止：割り当てを使い切りました（{category}）。",
        CampaignSentence::Resumed => "{by} がキャンペーンを再開しました。",
        CampaignSentence::Recovered => "障害後の停止が終わり、作業を続けます。",
        CampaignSentence::BudgetChanged => "{by} が予算を変更しました。",
        CampaignSentence::Completed => "キャンペーンは完了しました。すべてのタスクが終わっています。",
        CampaignSentence::Failed => "キャンペーンは失敗しました（{category}）。再開できます。",
        CampaignSentence::Cancelled => "{by} がキャンペーンを取り消しました。",
    }
}
