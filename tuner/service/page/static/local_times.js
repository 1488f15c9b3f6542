// Show moments in the reader's own time, with UTC under the pointer; fields of forms are typed in it, and sent in UTC.
"use strict";
const localTimes = (function () {
  const pad = (number) => String(number).padStart(2, "0");
  const format = (moment, join) => `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}${join}${pad(moment.getHours())}:${pad(moment.getMinutes())}`;
  const toUtc = (text) => text && !isNaN(new Date(text)) ? new Date(text).toISOString().slice(0, 16) : text;
  const isUtc = (moment) => moment.getTimezoneOffset() === 0;

  function show(root) {
    root.querySelectorAll("time[datetime]").forEach((time) => {
      const moment = new Date(time.dateTime);
      if (isNaN(moment) || time.dataset.shown) return;
      const utc = `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
      time.dataset.shown = "1";
      time.title = utc;
      if (isUtc(moment)) return;
      if (time.textContent.endsWith(" UTC")) time.textContent = format(moment, " ");
      else time.title = `${format(moment, " ")}, ${utc}`; // an age
    });
  }

  function adoptFields() {
    document.querySelectorAll("input[type=datetime-local]").forEach((field) => {
      if (field.value) field.value = format(new Date(`${field.value}Z`), "T");
      field.form.addEventListener("formdata", (event) => {
        if (event.formData.has(field.name)) event.formData.set(field.name, toUtc(event.formData.get(field.name)));
      });
    });
    document.querySelectorAll(".zone").forEach((zone) => { zone.textContent = "local time"; });
  }

  if (!isUtc(new Date())) {
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    document.querySelectorAll(".times").forEach((place) => { place.textContent = `Times are local (${name}); UTC is under the pointer.`; });
    adoptFields();
  }
  show(document);
  return { show };
})();
