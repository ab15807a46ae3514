#include <gtest/gtest.h>

#include "chat/suffix.h"

namespace tenuto {
namespace {

TEST(DefaultSystemPrompt, SmolLm2HasALiteralWithARealNewline) {
  EXPECT_EQ(
      DefaultSystemPrompt(
          "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' "
          "%}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
          "Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
          "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"),
      "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
}

TEST(DefaultSystemPrompt, Qwen25HasAnEscapedNewlineAndOtherLiteralsBeforeIt) {
  EXPECT_EQ(DefaultSystemPrompt("{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n"
                                "{%- else %}\n    {%- if messages[0]['role'] == 'system' %}\n"
                                "        {{- '<|im_start|>system\\n' + messages[0]['content'] + "
                                "'<|im_end|>\\n' }}\n    {%- else %}\n        {{- "
                                "'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You "
                                "are a helpful assistant.<|im_end|>\\n' }}\n    {%- endif %}"),
            "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
}

TEST(DefaultSystemPrompt, EscapesAndOtherQuotesAreResolved) {
  EXPECT_EQ(DefaultSystemPrompt(
                "{{ \"<|im_start|>system\\nIt's \\\"so\\\".\\nLine two\\\\<|im_end|>\" }}"),
            "It's \"so\".\nLine two\\");
}

TEST(DefaultSystemPrompt, PlainTextOutsideOfExpressions) {
  EXPECT_EQ(DefaultSystemPrompt("{% else %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"),
            "Be kind.");
  EXPECT_EQ(DefaultSystemPrompt("<|im_start|>system\n{{ system }}<|im_end|>\n"), "");
}

TEST(DefaultSystemPrompt, NoneWhereTheTemplateAddsNone) {
  EXPECT_EQ(DefaultSystemPrompt(""), "");
  EXPECT_EQ(DefaultSystemPrompt("{{ '<|im_start|>' + message.role }}"), "");
  EXPECT_EQ(DefaultSystemPrompt("{{ '<|im_start|>system\n' + content + '<|im_end|>' }}"), "");
  EXPECT_EQ(DefaultSystemPrompt("{{ '<|im_start|>system\nnever closed"), "");
  EXPECT_EQ(DefaultSystemPrompt("<|im_start|>system\nnever closed"), "");
  EXPECT_EQ(DefaultSystemPrompt("{{ '<|im_start|>system\\n\\"), "");
  EXPECT_EQ(DefaultSystemPrompt("{{ bos }}[INST] {{ messages[0].content }} [/INST]"), "");
}

}  // namespace
}  // namespace tenuto
