// What goes wrong in a call of libtorch, in words.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace kolo::train {

/// What `action` throws, without libtorch's stack; empty where it throws nothing.
template <typename Action>
std::string problem_of(const Action& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return {};
}

}  // namespace kolo::train
