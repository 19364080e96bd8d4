import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { EventBody } from "@berth/protocol/event"
import { onTestFinished } from "vitest"
import { type Journal, openJournal } from "../journal.ts"

/** Makes an event with a label. */
export const event = (label: number | string, padding = 0): EventBody => ({
  type: "warning",
  message: `${label}${" ".repeat(padding)}`,
})

/** Makes a directory that is removed after the test. */
export const temporaryDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "berth-journal-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

export interface ReadEvent {
  readonly sequence: number
  readonly label: string
}

/** Reads all events of the journal after that number. */
export const readAll = async (
  journal: Journal,
  after = journal.first - 1,
): Promise<ReadEvent[]> => {
  const reader = journal.readAfter(after)
  const found: ReadEvent[] = []
  try {
    while (after + found.length < journal.last) {
      const { events } = await reader.next(64 * 1024, AbortSignal.timeout(10_000))
      for (const text of events) {
        const { sequence, body } = JSON.parse(text)
        found.push({ sequence, label: body.message.trimEnd() })
      }
    }
    return found
  } finally {
    await reader.close()
  }
}

/** Opens a journal as the next supervisor would. */
export const reopened = async (
  directory: string,
  options: { machine?: string; maxBytes?: number } = {},
): Promise<Journal> => {
  const journal = await openJournal({ directory, ...options })
  onTestFinished(() => journal.close().catch(() => {}))
  return journal
}

/** The expected events from `first` to `last`, each labelled with its own number. */
export const counted = (last: number, first = 1): ReadEvent[] =>
  Array.from({ length: last - first + 1 }, (_, place) => ({
    sequence: first + place,
    label: String(first + place),
  }))
