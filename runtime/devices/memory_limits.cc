// devices/memory_limits.cc: find out how much memory this process may use.
#include "devices/memory_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

#include "devices/error.h"

namespace bellhop {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Returns the number after a label in a file, or infinity if there is none.
double find_labelled_number(const std::string& file, const std::string& label) {
  std::ifstream stream(file);
  std::string word;
  double number = 0;
  while (stream >> word) {
    if (word == label && stream >> number) return number;
  }
  return kUnlimited;
}

// Returns the number that a file begins with; `otherwise` if it begins with another
// word, such as "max", or cannot be read.
double read_first_number(const std::string& file, double otherwise) {
  double number = 0;
  return std::ifstream(file) >> number ? number : otherwise;
}

// Returns a limit, or for Memory::kFree its unused part.
double subtract_used(double limit, double used, Memory memory) {
  return memory == Memory::kAll ? limit : std::max(0.0, limit - used);
}

// Returns a soft limit of getrlimit, or infinity.
double get_resource_limit(int resource, double used, Memory memory) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kUnlimited;
  }
  return subtract_used(static_cast<double>(limit.rlim_cur), used, memory);
}

// Returns the least limit of a cgroup and its ancestors. `limit` and `used` are names
// of files in a group's directory.
double get_group_limit(const std::string& mounted, std::string path, const char* limit,
                       const char* used, Memory memory) {
  double least = kUnlimited;
  while (true) {
    const std::string directory = mounted + (path == "/" ? "" : path) + "/";
    const double bytes = read_first_number(directory + limit, kUnlimited);
    least = std::min(
        least, subtract_used(bytes, read_first_number(directory + used, 0), memory));
    if (path.empty() || path == "/") return least;
    path.resize(path.rfind('/'));
  }
}

// Returns the least memory limit of all cgroups of this process.
double get_cgroup_limit(const std::string& root, Memory memory) {
  double least = kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  // Lines such as "0::/user.slice" (version 2) and "4:cpu,memory:/docker/1a2b".
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    // Appended, because GCC 12 warns about "," + std::string (GCC bug 105651).
    std::string controllers = ",";
    controllers.append(line, first + 1, second - first - 1).append(",");
    const std::string path = line.substr(second + 1);
    const std::string mounted = root + "/sys/fs/cgroup";
    if (controllers == ",,") {
      least = std::min(least, get_group_limit(mounted, path, "memory.max",
                                              "memory.current", memory));
    } else if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(
          least, get_group_limit(mounted + "/memory", path, "memory.limit_in_bytes",
                                 "memory.usage_in_bytes", memory));
    }
  }
  return least;
}

}  // namespace

double memory_for_process(Memory memory, const std::string& root) {
  const bool all = memory == Memory::kAll;
  const double kib =
      find_labelled_number(root + "/proc/meminfo", all ? "MemTotal:" : "MemAvailable:");
  // Numbers of pages. The sixth number is the size of data and stack.
  std::ifstream sizes(root + "/proc/self/statm");
  double total = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  sizes >> total >> resident >> shared >> text >> library >> data;
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::min({1024 * kib, get_resource_limit(RLIMIT_AS, page * total, memory),
                   get_resource_limit(RLIMIT_DATA, page * data, memory),
                   get_cgroup_limit(root, memory)});
}

std::string format_gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g GiB", std::ldexp(bytes, -30));
  return text;
}

void throw_no_memory(std::size_t bytes) {
  throw CircuitError(
      "memory allocation of " + format_gib(static_cast<double>(bytes)) +
      " failed; free for this process: " +
      format_gib(memory_for_process(Memory::kFree)) +
      ". Use fewer wires or shots, or raise the process's memory limit.");
}

std::string make_no_memory_message() {
  return "memory allocation failed; free for this process: " +
         format_gib(memory_for_process(Memory::kFree)) +
         ". Use fewer wires or shots, or raise the limit.";
}

}  // namespace bellhop
