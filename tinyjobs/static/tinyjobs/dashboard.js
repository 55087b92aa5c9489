// Keeps the main block of a page fresh while its tab is visible and nobody reads or types in it, and lets one box choose
// all jobs of a page. Everything works without this script; it only saves reloading.
"use strict";
(() => {
    const STORED = "tinyjobs.live";
    const SECONDS_AT_MOST = 60;

    const main = () => document.getElementById("tj-main");

    function stored() {
        try {
            return localStorage.getItem(STORED) !== "off";
        } catch {
            return true; // the browser keeps nothing for this site
        }
    }

    function store(isOn) {
        try {
            localStorage.setItem(STORED, isOn ? "on" : "off");
        } catch {
            // It holds for this page, then.
        }
    }

    // Somebody uses the block: a field or a link in it has the focus, text is selected, a box or a filter has changed.
    function isInUse(block) {
        if (block.contains(document.activeElement)) {
            return true;
        }
        const selection = document.getSelection();
        if (selection && !selection.isCollapsed && block.contains(selection.anchorNode)) {
            return true;
        }
        return [...block.querySelectorAll("input, select, textarea")].some((field) => {
            if (field.type === "checkbox") {
                return field.checked !== field.defaultChecked;
            }
            if (field.tagName === "SELECT") {
                return [...field.options].some((option) => option.selected !== option.defaultSelected && option.value);
            }
            return field.type !== "hidden" && field.value !== field.defaultValue;
        });
    }

    function opened(block) {
        return new Set([...block.querySelectorAll("details[open][data-tj-key]")].map((found) => found.dataset.tjKey));
    }

    function replace(block, text) {
        const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("tj-main");
        if (!fresh) {
            return false; // a page to log in, perhaps
        }
        const open = opened(block);
        for (const found of fresh.querySelectorAll("details[data-tj-key]")) {
            found.open = open.has(found.dataset.tjKey);
        }
        block.replaceChildren(...document.adoptNode(fresh).childNodes);
        chooseAll();
        return true;
    }

    // One box for all the others, which is of no use without a script and so hidden until now.
    function chooseAll() {
        for (const all of document.querySelectorAll("[data-tj-all]")) {
            all.hidden = false;
            all.addEventListener("change", () => {
                for (const box of all.form.querySelectorAll('input[name="_selected_action"]')) {
                    box.checked = all.checked;
                }
            });
        }
    }

    function keepFresh(block, button) {
        const usual = Number(block.dataset.tjLive);
        let isOn = stored();
        let hasFailed = false;
        let wait = usual;
        let timer = 0;

        function show() {
            button.setAttribute("aria-pressed", String(isOn));
            button.textContent = isOn ? (hasFailed ? button.dataset.failed : button.dataset.on) : button.dataset.off;
        }

        function later() {
            clearTimeout(timer);
            if (isOn) {
                timer = setTimeout(refresh, wait * 1000);
            }
        }

        async function refresh() {
            if (document.visibilityState === "visible" && !isInUse(block)) {
                try {
                    const answer = await fetch(location.href, {headers: {"Tinyjobs-Refresh": "1"}, cache: "no-store"});
                    const text = await answer.text();
                    hasFailed = !(answer.ok && !answer.redirected && (!isOn || isInUse(block) || replace(block, text)));
                } catch {
                    hasFailed = true;
                }
                wait = hasFailed ? Math.min(wait * 2, SECONDS_AT_MOST) : usual;
                show();
            }
            later();
        }

        button.hidden = false;
        button.addEventListener("click", () => {
            isOn = !isOn;
            store(isOn);
            wait = usual;
            show();
            later();
        });
        show();
        later();
    }

    document.addEventListener("DOMContentLoaded", () => {
        chooseAll();
        const block = main();
        const button = document.querySelector("[data-tj-live-switch]");
        if (block && block.dataset.tjLive && button) {
            keepFresh(block, button);
        }
    });
})();
