import { open } from "node:fs/promises"
import { MAX_LOG_BYTES } from "./conmon.ts"

/**
 * Reads a log in conmon's line format: `TIME stdout|stderr F|P TEXT`, where P is a part of a line that goes on in the
 * next. A sandbox that wrote nothing has no log.
 */
export const readLog = async (path: string): Promise<string> => {
  try {
    await using file = await open(path, "r")
    const { size } = await file.stat()
    const length = Math.min(size, MAX_LOG_BYTES)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return parseLog(buffer.subarray(0, bytesRead).toString("utf8"))
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return ""
    throw thrown
  }
}

const parseLog = (text: string): string =>
  text
    .split("\n")
    .map((line) => /^\S+ (?:stdout|stderr) ([FP]) ?(.*)$/s.exec(line))
    .map((match) => (match === null ? "" : `${match[2]}${match[1] === "F" ? "\n" : ""}`))
    .join("")
