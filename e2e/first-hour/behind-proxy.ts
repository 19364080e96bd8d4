import { expect } from "vitest"
import type { openServer } from "../sandboxes/server.ts"
import type { Company } from "./company.ts"
import type { Case } from "./journey.ts"

type Server = Awaited<ReturnType<typeof openServer>>

const CLONE =
  "rm -rf app && git clone --quiet https://git.company.test/app.git app && git -C app rev-parse HEAD"
/** Installs without the machine's own npmrc, which is below /usr and may replace all authorities by a list of its own. */
const INSTALL = `
mkdir -p project && cd project && echo '{}' > package.json
npm install --globalconfig /dev/null --registry https://npm.company.test/ --no-audit --no-fund --no-update-notifier --fetch-retries 0 company-greeting
node -p 'require("company-greeting")'`

/** Cases of git and npm in a sandbox of a host that reaches the world through a company's proxy. */
export const behindProxy = (stage: () => { server: Server; company: Company }): readonly Case[] => {
  const workspaceOf = (slug: string, repos: { url: string }[] = []) => {
    const { allow } = stage().company
    return { slug, repos, network: { kind: "open" as const, allow } }
  }
  const up = async (...given: Parameters<typeof workspaceOf>) => {
    const workspace = workspaceOf(...given)
    const sandbox = await stage().server.client().sandboxes.create({ workspace })
    await sandbox.ready()
    return sandbox
  }

  return [
    {
      title:
        "git and npm work behind the host's proxy once its certificate authority is where NODE_EXTRA_CA_CERTS says, and fail before",
      work: async () => {
        const { server, company } = stage()
        const first = await up("company")
        const { warnings } = await first.get()
        expect(warnings).toEqual([
          `the certificates of ${company.installed}, which NODE_EXTRA_CA_CERTS names, are not taken over: there is no such file; put one there, or start the server without NODE_EXTRA_CA_CERTS`,
        ])
        const refusedClone = await first.commands.run(CLONE)
        expect(refusedClone.status).not.toBe(0)
        expect(refusedClone.stderr).toMatch(/certificate/i)
        const refusedInstall = await first.commands.run(INSTALL)
        expect(refusedInstall.status).not.toBe(0)
        expect(refusedInstall.stderr).toMatch(/certificate/i)
        expect(company.asked).toEqual(
          expect.arrayContaining(["git.company.test:443", "npm.company.test:443"]),
        )

        company.install()
        const second = await up("company")
        expect(second.id).not.toBe(first.id)
        expect(await second.commands.run(CLONE)).toMatchObject({
          stdout: `${company.commit}\n`,
          status: 0,
        })
        const installed = await second.commands.run(INSTALL)
        expect(installed, installed.stderr).toMatchObject({ status: 0 })
        expect(installed.stdout).toContain("hello from the company\n")
        await server.berth(["rm", "company", "--force"])
      },
    },

    {
      title: "the boot of a workspace clones a repo from behind the host's proxy",
      work: async () => {
        const { server, company } = stage()
        company.install()
        const sandbox = await up("cloned", [{ url: "https://git.company.test/app.git" }])
        const head = await sandbox.commands.run("git rev-parse HEAD")
        expect(head).toMatchObject({ stdout: `${company.commit}\n`, status: 0 })
        const written = await sandbox.commands.run("touch /run/berth-certificates/all.pem")
        expect(written.status).not.toBe(0)
        await server.berth(["rm", "cloned", "--force"])
      },
    },
  ]
}
