//! Texts of the examples.

texts! {
    title: "示例", "Examples";
    lead: "常见的限流，每个都能打开一个填好的表单。", "Common limits. Each opens a form that is filled in.";
    open_form: "打开表单", "Open the form";
    open_file: "打开规则文件", "Open the rule file";
    qps: "每秒 100 次", "100 per second";
    qps_text: "只知道 QPS 时：突发度与速率相同。", "If you know the QPS only: burst and rate are the same.";
    burst: "允许突发", "Allow bursts";
    burst_text: "平均每秒 20 次，空闲之后可以一次来 200 次。适合自己的服务。", "20 per second on average, and 200 at once after a quiet time. For a service of your own.";
    supplier: "供应商推送", "Pushes of suppliers";
    supplier_text: "每个供应商各有一个桶，互不影响。", "A bucket for each supplier, so that none slows down another.";
    advance: "可预消费", "Take in advance";
    advance_text: "偶尔的大批量可以预消费 50 个令牌，之后先偿还。", "A large batch may take 50 tokens in advance, which are repaid first.";
    day: "每用户每天", "Per user and day";
    day_text: "每个用户每天 1,000 次，另有每秒 10 次的上限。", "1,000 a day for each user, and at most 10 in a second.";
    queue: "匀速调用第三方", "Pace calls to others";
    queue_text: "漏桶排队：请求逐个放行，对方不会遇到突发。", "A leaky bucket that queues: requests pass one by one, so that the other side meets no burst.";
    reply: "供应商的拒绝响应", "A reply for suppliers";
    reply_text: "被拒绝的调用方逐字节收到此响应体。", "Denied callers receive this body byte for byte.";
    tokens: "大模型用量", "Tokens of a language model";
    tokens_text: "按用量计：请求结束后再报告实际用量，总是全部计入。", "By usage: what a request has used is reported when it is over, and always counted in full.";
}
