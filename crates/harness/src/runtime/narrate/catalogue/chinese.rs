//! The sentences of the controller in Chinese (simplified).

use super::Sentence;

pub(super) fn select_template(sentence: Sentence) -> &'static str {
    match sentence {
        Sentence::ApproveCall => "使用 {tool} 需要批准 ({signal})。",
        Sentence::ApproveCallWith => "使用 {tool} 需要批准 ({signal})：{arguments}",
        Sentence::ApproveAction => "需要批准：{signal}。",
        Sentence::Awaits => "已暂停，等待 {signal}。",
        Sentence::Answered => "{signal} 已得到答复；工作继续。",
        Sentence::Expired => "没有人及时答复 {signal}。",
        Sentence::GivenUp => "{signal} 已撤回。",
        Sentence::Unfit => "对 {signal} 的答复不符合要求，未被接受。",
        Sentence::Calls => "代理请求使用 {tools}。",
        Sentence::NotDone => "未执行操作：{reason}",
        Sentence::ToolSucceeded => "{tool} 已成功。",
        Sentence::ToolFailed => "{tool} 失败；已告知代理。",
        Sentence::ToolInDoubt => "{tool}：不知道是否已生效。",
        Sentence::SomeTool => "工具",
        Sentence::Summarised => "模型看到的是摘要，代替消息 {from} 至 {to}；这些消息仍保留。",
        Sentence::NotSummarised => "无法生成摘要 ({category})；没有任何变化。",
        Sentence::Stopped => "本轮已停止。",
        Sentence::Continues => "此对话接续 {session}。",
        Sentence::CutOff => "{text}… 还有 {bytes} 字节，摘要值 {digest}",
        Sentence::Done => "完成。",
    }
}
