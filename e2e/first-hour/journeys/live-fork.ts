import { sized } from "@berth/testing/sampled"
import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

const FILES = sized("new files of a sandbox that a newcomer forks", { few: 2_000, all: 50_000 })

/** The fork of a running sandbox, and its removal beside an unknown name. */
export const liveFork = ({ journey }: Machine): void =>
  journey(
    "live-fork",
    `forks a live sandbox with ${FILES} new files, is told how long it stood still, and removes the fork beside an unknown name`,
    async ({ sees }) => {
      await sees(
        `berth exec my-repo -- sh -c 'mkdir new && cd new && seq ${FILES} | xargs touch && touch /tmp/alive'`,
      )
      const forked = await sees("berth fork my-repo my-copy")
      expect(forked).toMatch(/my-copy is ready; my-repo stood still for \d+ ms$/)
      expect(await sees("berth exec my-copy -- sh -c 'pwd; ls new | wc -l'")).toBe(
        `/workspace/my-repo\n${FILES}`,
      )
      expect(await sees("berth exec my-repo -- ls /tmp/alive")).toBe("/tmp/alive")
      const removed = await sees("berth rm my-copy unknown", { status: 1 })
      expect(removed).toMatch(/^sb-\w+$/m)
      expect(removed).toContain("berth: there is no sandbox unknown")
      expect(await sees("berth ps")).toMatch(/^SANDBOX .*\nsb-\w+ +my-repo +ready .*$/)
      await sees("berth exec my-repo -- rm -r new")
    },
  )
