// `engine export`: the documents of a pool as files that other databases read.
#pragma once

#include "cli/commands.h"

namespace perdure::cli {

int export_documents(const Arguments& arguments);

}  // namespace perdure::cli
