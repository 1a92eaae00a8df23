# Sorting, regular expressions, errors, matrices, the collector.
stop_file <- commandArgs(trailingOnly = TRUE)[1]
deep <- function(n) if (n == 0) stop("bottom") else 1 + deep(n - 1)
round_once <- function() {
  sum <- 0
  add <- function(text) {
    for (code in utf8ToInt(text)) sum <<- (sum * 31 + code) %% 4294967291
  }
  for (i in 0:50) add(tryCatch(as.character(deep(i)), error = conditionMessage))
  words <- sort(paste0("w", (0:5000 * 7919) %% 10007), method = "radix")
  add(gsub("w([0-9])", "\\1w", paste(words, collapse = " ")))
  m <- matrix((1:2500 * 7) %% 13, 50)
  add(paste(sum(m %*% m), format(det(diag(5) * 2))))
  gc()
  sum
}
first <- round_once()
cat(format(first, digits = 15), "\n")
flush(stdout())
n <- 1
while (n < 3 || !file.exists(stop_file)) {
  if (!identical(round_once(), first)) {
    cat("MISMATCH in round", n, "\n")
    quit(status = 1)
  }
  n <- n + 1
}
cat("done\n")
