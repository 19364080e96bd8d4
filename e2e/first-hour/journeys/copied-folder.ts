import { sized } from "@berth/testing/sampled"
import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

const ENTRIES = sized("entries that a newcomer copies", { few: 2_000, all: 7_592 })

/** Ends without closing the socket, whose file stays. */
const SOCKET = `/opt/berth/bin/node -e 'require("net").createServer().listen("socket", () => process.kill(process.pid, 9))'`

/** A folder with many files, and some that cannot be copied. */
export const copiedFolder = ({ journey }: Machine): void =>
  journey(
    "copied-folder",
    `copies ${ENTRIES} files out and in with their times and modes, and skips a pipe and a socket with a line`,
    async ({ sees }) => {
      const make = `mkdir -p /tmp/many && cd /tmp/many && seq ${ENTRIES} | xargs touch && chmod 640 1 && touch -d @981173106 1 && mkfifo pipe; ${SOCKET}`
      await sees(`berth exec my-repo -- sh -c '${make.replaceAll("'", `'\\''`)}'`, { status: 137 })
      const out = await sees("berth cp my-repo:/tmp/many many")
      expect(out).toContain("skipped pipe: it is a named pipe")
      expect(out).toContain("skipped socket: it is a socket")
      expect(await sees("ls many | wc -l; stat -c '%a %Y' many/1")).toBe(
        `${ENTRIES}\n640 981173106`,
      )
      await sees("berth cp many my-repo:/tmp/back")
      expect(
        await sees(
          "berth exec my-repo -- sh -c 'cd /tmp/back && ls | wc -l && stat -c \"%a %Y\" 1'",
        ),
      ).toBe(`${ENTRIES}\n640 981173106`)
      await sees("rm -r many; berth exec my-repo -- rm -r /tmp/many /tmp/back")
    },
  )
