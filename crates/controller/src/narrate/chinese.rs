//! The sentences about campaigns in Chinese, in simplified characters.

use super::sentence::CampaignSentence;

pub(super) fn select_sentence(sentence: CampaignSentence) -> &'static str {
    match sentence {
        CampaignSentence::Created => "活动“{name}”已创建。",
        CampaignSentence::PlanProposed => {
            "代理提出了计划的第 {version} 版（任务数 {tasks}），等待批准（摘要 {digest}）。"
        }
        CampaignSentence::PlanEdited => {
            "{by} 编辑了计划：第 {version} 版，任务数 {tasks}，等待批准（摘要 {digest}）。"
        }
        CampaignSentence::PlanApproved => "{by} 批准了计划的第 {version} 版。",
        CampaignSentence::PlanRejected => "{by} 拒绝了计划的第 {version} 版。原因：{reason}",
        CampaignSentence::Refused => "一项提议被拒绝：{why}",
        CampaignSentence::NothingProposed => "代理目前没有提议。",
        CampaignSentence::TaskSelected => "开始处理任务 {task}。",
        CampaignSentence::ApproveCall => "为 {task} 使用 {tool} 需要批准：{arguments}（摘要 {digest}）",
        CampaignSentence::CallProposed => "为 {task} 使用 {tool}。",
        CampaignSentence::CallProposedWith => "为 {task} 使用 {tool}：{arguments}",
        CampaignSentence::CallApproved => "{by} 批准了使用 {tool}。",
        CampaignSentence::CallRejected => "{by} 拒绝了使用 {tool}；什么也没有做。原因：{reason}",
        CampaignSentence::CallBegan => "{tool} 开始。",
        CampaignSentence::CallSucceeded => "{tool} 成功。",
        CampaignSentence::CallFailed => "{tool} 失败；代理会看到结果。",
        CampaignSentence::CallInDoubt => "{tool}：是否生效尚不清楚，不会再次调用。",
        CampaignSentence::CallNotMade => "没有调用 {tool}；什么也没有做。",
        CampaignSentence::ArtifactProposed => "代理为 {task} 提出了工件 {artifact}，等待批准。",
        CampaignSentence::ArtifactApproved => "{by} 批准了工件 {artifact}。",
        CampaignSentence::QuestionAsked => "一个问题：{question}",
        CampaignSentence::QuestionAnswered => "{by} 已回答；工作继续。",
        CampaignSentence::Confirmed => "{by} 确认了 {task} 的一项证明。",
        CampaignSentence::TaskCompleted => "任务 {task} 已完成：所有证明都已找到。",
        CampaignSentence::TaskBlocked => "任务 {task} 无法继续：{why}",
        CampaignSentence::TaskUnblocked => "{by} 让任务 {task} 继续。",
        CampaignSentence::TaskRetried => "{by} 要求重做任务 {task}。",
        CampaignSentence::PausedByPerson => "{by} 暂停了活动。",
        CampaignSentence::PausedByBudget => "已暂停：预算用尽（{part}）。",
        CampaignSentence::PausedWithoutTask => "已暂停：没有可以开始的任务。",
        CampaignSentence::PausedIdle => "已暂停：代理没有可提议的内容。",
        CampaignSentence::PausedByFailure => "因可能会消失的故障而暂停（{category}）；将再次尝试。",
        CampaignSentence::PausedByQuota => "已暂停：配额用尽（{category}）。",
        CampaignSentence::Resumed => "{by} 恢复了活动。",
        CampaignSentence::Recovered => "故障后的暂停已结束；工作继续。",
        CampaignSentence::BudgetChanged => "{by} 更改了预算。",
        CampaignSentence::Completed => "活动已完成：所有任务都已完成。",
        CampaignSentence::Failed => "活动失败（{category}）。可以恢复。",
        CampaignSentence::Cancelled => "{by} 取消了活动。",
    }
}
