//! The built-in replies in Chinese (simplified).

use super::LanguageReplies;

pub(super) const REPLIES: LanguageReplies = LanguageReplies {
    of_buckets: [
        "此对话无法继续。请开始新的对话。",
        "未能作出回复。请稍后再试。",
        "无法处理此请求：{diagnostic}。请修改您的消息后重试。",
    ],
    not_the_message: "无法处理此请求：{diagnostic}。",
    of_categories: [
        "此对话的助手不可用：{diagnostic}。",
        "此回复所需超出了允许的范围：{diagnostic}。",
        "此处需要先作出决定：{diagnostic}。",
        "此对话不存在：{diagnostic}。",
        "助手正在重新启动。请稍后再试。",
        "没有人及时作出决定：{diagnostic}。",
        "此消息未能及时得到回复：{diagnostic}。如果仍需要回复，请重新发送。",
        "已停止：{diagnostic}。",
        "助手每次尝试回复此消息都失败了：{diagnostic}。不会再次尝试。",
        "助手无法访问其模型：{diagnostic}。需要由管理员修正。",
        "助手的模型不存在：{diagnostic}。需要由管理员修正。",
        "模型给出的回答无法使用：{diagnostic}。",
        "模型正在加载。请稍后再试。",
        "模型正忙。请稍后再试。",
        "目前无法连接到模型。请稍后再试。",
        "模型给出的回答无法使用：{diagnostic}。",
    ],
};
