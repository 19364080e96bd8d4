import { expect } from "vitest"
import { CTRL_C, type Machine } from "../newcomer.ts"

/** A page that a command in the background serves. */
export const background = ({ journey }: Machine): void =>
  journey(
    "background",
    "runs a command in the background, and brings its port to this machine",
    async ({ sees }) => {
      await sees("berth exec -d my-repo -- /opt/berth/bin/node page.js /tmp/pid")
      await sees("berth port-forward my-repo 0:3000", {
        meanwhile: async ({ type, see }) => {
          const [, address] = await see(/(127\.0\.0\.1:\d+) leads to port 3000/)
          const get = async () => (await fetch(`http://${address}`)).text()
          await expect.poll(() => get().catch(() => "")).toBe("a page")
          type(CTRL_C)
        },
      })
      await sees("berth exec my-repo -- sh -c 'kill $(cat /tmp/pid)'")
    },
  )
