import { join } from "node:path"
import { expect } from "vitest"
import { makeRepo } from "../../boot/stage.ts"
import type { Machine } from "../newcomer.ts"

/** More processes than the sandbox may have. */
const TOO_MANY = 300
const MAX_PROCESSES = 256

/** Starts processes until that is refused, and ends them. */
const FORKS = `perl -e 'for (1 .. ${TOO_MANY}) { my $id = fork; if (!defined $id) { print "refused\\n"; last }; if (!$id) { sleep 100; exit }; push @ids, $id }; kill 9, @ids'`

/** The sandbox of the repo in the current folder, which the later journeys use. */
export const firstSandbox = ({ journey }: Machine): void =>
  journey(
    "first-sandbox",
    "makes the sandbox of the repo in the current folder, within limits, and sees tables with named columns",
    async ({ home, sees }) => {
      makeRepo(join(home, "my-repo"), {
        "package.json": JSON.stringify({ name: "my-repo", scripts: { test: "echo 1 passed" } }),
        "page.js": `require("node:http").createServer((_, answer) => answer.end("a page")).listen(3000, () => console.log("a page is served"))`,
      })
      await sees("cd my-repo")
      expect(await sees("berth up --pids few", { status: 2 })).toContain(
        "berth: --pids is a whole number from 16 on, not few",
      )
      expect(await sees("berth up --memory lots", { status: 2 })).toContain("--memory is a size")
      const limits = `--memory 1G --cpus 1.5 --pids ${MAX_PROCESSES}`
      const made = await sees(`berth up --network none ${limits}`)
      expect(made).toMatch(/^sb-\w+$.*^my-repo is ready after \d+ ms$/ms)
      expect(await sees("berth ps")).toMatch(
        /^SANDBOX +WORKSPACE +PHASE +AGE\nsb-\w+ +my-repo +ready +\S/,
      )
      expect(await sees(`berth exec my-repo -- ${FORKS}`)).toContain("refused")
      expect(await sees("berth boot my-repo")).toContain("git-sync")
    },
  )
