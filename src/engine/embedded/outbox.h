// Answers of one task of the engine, handed to the answer runner together and in order: one post a
// step, not one a token. Engine's runner only.
#pragma once

#include <utility>
#include <vector>

#include "io/runner.h"

namespace tenuto {

class Outbox {
 public:
  explicit Outbox(Runner& answer_runner) : answer_runner_(answer_runner) {}

  void Add(Runner::Task task) { tasks_.push_back(std::move(task)); }

  void Flush() {
    if (tasks_.empty()) return;
    if (tasks_.size() == 1) {
      answer_runner_.Post(std::move(tasks_.front()));
    } else {
      answer_runner_.Post([tasks = std::move(tasks_)] {
        for (const Runner::Task& task : tasks)
          task();
      });
    }
    tasks_.clear();
  }

 private:
  Runner& answer_runner_;
  std::vector<Runner::Task> tasks_;
};

}  // namespace tenuto
